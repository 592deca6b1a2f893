//! Direct charges: the intake of a request, and the wait for its outcome.
//!
//! Key and attempt commit together, before the provider is called. From then on the payment is an
//! attempt like any other: a charger calls the provider, and the recorder's commit completes the key.
//! After a crash the lease expires and the next charger continues. This module never calls the provider.

use std::sync::Arc;
use std::time::Duration;

use api_keys::Principal;
use idempotency::store::{self as keys, Claim};
use idempotency::{ContentHash, Fingerprint, Key, Scope, StoredResponse};
use service_kit::database::{self, Inconsistent, STORE_TIMEOUT};
use service_kit::{FairShare, crash};
use sqlx::{Connection as _, PgConnection, PgPool};
use telemetry::Context;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::charger::{ChargerQueues, Queue};
use crate::domain::DirectCharge;
use crate::domain::direct::DIRECT_ROUTE;
use crate::responses;
use crate::store::direct::{self, NewPayment, Payment};
use crate::waiting::{Wait, Waiting};

/// How often a waiting request reads the store for its outcome if nothing wakes it.
pub const POLL_DEFAULT: Duration = Duration::from_millis(500);

/// Accepts direct charges.
#[derive(Clone)]
pub struct DirectCharges {
    pub pool: PgPool,
    /// Wakes the charger.
    pub queues: Arc<ChargerQueues>,
    pub waiting: Waiting,
    /// Places for requests that wait, shared between principals.
    pub waiters: FairShare,
    pub key_window_seconds: u64,
    /// How long a request waits for its outcome.
    pub wait: Duration,
    /// How often it reads the store for an outcome that another replica may have recorded.
    pub poll: Duration,
    /// Cancelled when the service stops. Requests then stop waiting.
    pub closing: CancellationToken,
}

/// A request that passed all checks, with its idempotency key.
pub struct ChargeRequest {
    /// The id of the payment if the request creates one.
    pub id: Uuid,
    pub principal: Arc<Principal>,
    pub key: Key,
    pub fingerprint: Fingerprint,
    pub charge: DirectCharge,
    pub content_hash: ContentHash,
}

/// The result of storing a request.
pub enum OpenResult {
    /// Key and attempt are stored: a charger does the rest.
    New(Wait),
    /// The reference belongs to a payment that is settled or has other content. This response is
    /// stored under the key.
    ReferenceTaken(StoredResponse),
    /// The response that an earlier request with this key got.
    Replayed(StoredResponse),
    /// The key was used for another request.
    Mismatch,
    /// Another request holds this key.
    InFlight { payment_id: Option<Uuid> },
    /// The reference belongs to an open payment with the same content.
    ReferenceInFlight { payment_id: Uuid },
    /// The key had expired and is free again.
    Freed,
}

/// The result of waiting for an outcome.
pub enum WaitResult {
    Settled(StoredResponse),
    StillOpen(Box<Payment>),
}

impl ChargeRequest {
    fn scope(&self) -> Scope<'_> {
        Scope {
            principal_id: &self.principal.id,
            route: DIRECT_ROUTE,
            key: &self.key,
        }
    }
}

impl DirectCharges {
    /// Claims the key and stores the attempt in one commit, or returns why it could not. After a
    /// timeout the outcome is unknown; a retry with the same key finds it.
    pub async fn open(&self, request: &ChargeRequest) -> Result<OpenResult, database::Error> {
        database::with_timeout(STORE_TIMEOUT, self.try_open(request)).await
    }

    async fn try_open(&self, request: &ChargeRequest) -> Result<OpenResult, database::Error> {
        // Join before the commit. A later join could miss the outcome.
        let wait = self.waiting.join(request.id);
        let mut connection = database::acquire(&self.pool).await?;
        let mut tx = connection.begin().await?;
        let opened = self.claim(&mut tx, request, wait).await;
        match &opened {
            Ok(OpenResult::New(_)) => {
                tx.commit().await?;
                crash::point("direct.committed");
                let fresh = self.queues.of(Queue::Fresh);
                fresh.wake(&request.principal.id);
            }
            Ok(OpenResult::ReferenceTaken(_) | OpenResult::Freed) => tx.commit().await?,
            // Roll back before the response. The pool would do it later, and the client's next request
            // with this key could find the key locked.
            _ => {
                let _ = tx.rollback().await;
            }
        }
        opened
    }

    async fn claim(
        &self,
        tx: &mut PgConnection,
        request: &ChargeRequest,
        wait: Wait,
    ) -> Result<OpenResult, database::Error> {
        let (scope, window) = (request.scope(), self.key_window_seconds);
        let claim = keys::claim(tx, scope, &request.fingerprint, Some(request.id), window).await?;
        Ok(match claim {
            Claim::New => store(tx, request, wait).await?,
            Claim::Completed(response) => OpenResult::Replayed(response),
            Claim::Mismatch => OpenResult::Mismatch,
            Claim::InFlight { resource_id } => OpenResult::InFlight {
                payment_id: resource_id,
            },
            // Another version of the service stored the response in a format that this one cannot read.
            // The row of the payment has the same content.
            Claim::Unreadable { resource_id } => {
                OpenResult::Replayed(derive_response(tx, request, resource_id).await?)
            }
            Claim::Expired => {
                keys::forget_expired(tx, scope).await?;
                OpenResult::Freed
            }
        })
    }

    /// Waits for the outcome, if the principal has not used up its share of places. Holds
    /// neither a connection nor a transaction. Only the last read may return an error: before that,
    /// the store may become reachable again.
    pub async fn wait_for_outcome(
        &self,
        request: &ChargeRequest,
        wait: Wait,
    ) -> Result<WaitResult, database::Error> {
        let place = self.waiters.try_take(&request.principal.id);
        let wait_max = if place.is_some() {
            self.wait
        } else {
            Duration::ZERO
        };
        let deadline = Instant::now() + wait_max;
        loop {
            let next_read = deadline.min(Instant::now() + self.poll);
            tokio::select! {
                () = wait.settled() => {}
                () = tokio::time::sleep_until(next_read) => {}
                () = self.closing.cancelled() => {}
            }
            let is_last = Instant::now() >= deadline || self.closing.is_cancelled();
            match database::with_timeout(STORE_TIMEOUT, self.read_outcome(request)).await {
                Ok(WaitResult::Settled(response)) => return Ok(WaitResult::Settled(response)),
                seen if is_last => return seen,
                _ => {}
            }
        }
    }

    /// Reads the payment first: the commit that settles it also completes the key.
    async fn read_outcome(&self, request: &ChargeRequest) -> Result<WaitResult, database::Error> {
        let mut connection = database::acquire(&self.pool).await?;
        let payment = direct::find(&mut connection, &request.principal.id, request.id).await?;
        let payment = payment.ok_or_else(|| Inconsistent::new("an accepted payment is missing"))?;
        if payment.status.is_open() {
            return Ok(WaitResult::StillOpen(Box::new(payment)));
        }
        let found = keys::find(&mut connection, request.scope(), &request.fingerprint).await?;
        Ok(WaitResult::Settled(match found {
            Some(Claim::Completed(response)) => response,
            _ => responses::for_payment(&payment),
        }))
    }
}

/// Stores the attempt in the transaction of the claim. If the reference is taken, responds with the
/// first payment.
async fn store(
    tx: &mut PgConnection,
    request: &ChargeRequest,
    wait: Wait,
) -> Result<OpenResult, database::Error> {
    let context = Context::current();
    let payment = NewPayment {
        id: request.id,
        principal_id: &request.principal.id,
        key: &request.key,
        charge: &request.charge,
        content_hash: &request.content_hash,
        correlation_id: &context.correlation_id,
        traceparent: context.traceparent.as_deref(),
    };
    if direct::open(tx, &payment).await? {
        return Ok(OpenResult::New(wait));
    }
    let first = find_first(tx, request).await?;
    let is_same = first.content_hash == request.content_hash.as_bytes();
    if is_same && first.status.is_open() {
        let payment_id = first.id;
        return Ok(OpenResult::ReferenceInFlight { payment_id });
    }
    let response = responses::for_taken_reference(&first, &request.content_hash);
    keys::complete(tx, request.scope(), &response).await?;
    Ok(OpenResult::ReferenceTaken(response))
}

/// The payment that has the reference.
async fn find_first(
    tx: &mut PgConnection,
    request: &ChargeRequest,
) -> Result<Payment, database::Error> {
    let missing = || Inconsistent::new("a used key has neither a payment nor a taken reference");
    let reference = request.charge.reference.as_deref().ok_or_else(missing)?;
    let first = direct::find_by_reference(tx, &request.principal.id, reference).await?;
    Ok(first.ok_or_else(missing)?)
}

/// Builds the response from the table. The request either created a payment or found its reference
/// taken.
async fn derive_response(
    tx: &mut PgConnection,
    request: &ChargeRequest,
    resource_id: Option<Uuid>,
) -> Result<StoredResponse, database::Error> {
    if let Some(id) = resource_id
        && let Some(created) = direct::find(tx, &request.principal.id, id).await?
    {
        return Ok(responses::for_payment(&created));
    }
    let first = find_first(tx, request).await?;
    Ok(responses::for_taken_reference(
        &first,
        &request.content_hash,
    ))
}
