//! Direct charges: the way in, and the wait for the outcome.
//!
//! Key and attempt commit together, before the provider hears of either. From there on the payment
//! is an attempt like any other: a charger calls, the recorder's commit completes the key, and a
//! crash anywhere is healed by the lease. Nobody here talks to the provider.

use std::sync::Arc;
use std::time::Duration;

use api_keys::Principal;
use idempotency::store::{self as keys, Claim};
use idempotency::{ContentHash, Fingerprint, Key, Scope, StoredResponse};
use service_kit::crash;
use service_kit::database::{self, STORE_TIMEOUT};
use sqlx::{Connection as _, PgConnection, PgPool};
use telemetry::Context;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::domain::DirectCharge;
use crate::outcome::DIRECT_ROUTE;
use crate::routes::view;
use crate::store::direct::{self, NewPayment, Payment};
use crate::waiting::{Wait, Waiting};

/// How often a waiting caller looks for an outcome unless it is woken.
pub const POLL_DEFAULT: Duration = Duration::from_millis(500);

/// Takes direct charges in.
#[derive(Clone)]
pub struct Desk {
    pub pool: PgPool,
    /// Wakes the charger.
    pub due: Arc<Notify>,
    pub waiting: Waiting,
    pub key_window_seconds: u64,
    /// How long a caller waits for the outcome.
    pub wait: Duration,
    /// How often it looks for one that another replica may have recorded.
    pub poll: Duration,
    /// Cancelled when the service stops: what is not known by then is not waited for.
    pub closing: CancellationToken,
}

/// A request that was understood.
pub struct Ask {
    pub id: Uuid,
    pub principal: Arc<Principal>,
    pub key: Key,
    pub fingerprint: Fingerprint,
    pub charge: DirectCharge,
    pub content_hash: ContentHash,
}

/// What became of a request at the store.
pub enum Opened {
    /// Key and attempt are stored: a charger will do the rest.
    New(Wait),
    /// The reference names a payment that is settled, or has other content: this is stored as the
    /// key's answer.
    Answered(StoredResponse),
    /// The key's own answer, given before.
    Replayed(StoredResponse),
    Mismatch,
    /// The key is being worked on.
    InFlight {
        payment_id: Option<Uuid>,
    },
    /// The reference names a payment of the same content that is still open.
    ReferenceInFlight {
        payment_id: Uuid,
    },
    /// The key had expired and is free again.
    Freed,
}

/// What a caller who waited is told.
pub enum Outcome {
    Settled(StoredResponse),
    /// It takes longer.
    Open(Box<Payment>),
}

impl Ask {
    fn scope(&self) -> Scope<'_> {
        Scope {
            principal_id: &self.principal.id,
            route: DIRECT_ROUTE,
            key: &self.key,
        }
    }
}

impl Desk {
    /// Claims the key and stores the attempt in one commit, or says why not. Past the limit nothing
    /// is known here: the key tells whoever asks again.
    pub async fn open(&self, ask: &Ask) -> Result<Opened, database::Error> {
        database::query_with_timeout(STORE_TIMEOUT, self.try_open(ask)).await
    }

    async fn try_open(&self, ask: &Ask) -> sqlx::Result<Opened> {
        // Before the commit, so that no outcome can slip by.
        let wait = self.waiting.join(ask.id);
        let mut connection = database::acquire(&self.pool).await?;
        let mut tx = connection.begin().await?;
        let opened = self.claim(&mut tx, ask, wait).await;
        match &opened {
            Ok(Opened::New(_)) => {
                tx.commit().await?;
                crash::point("direct.committed");
                self.due.notify_one();
            }
            Ok(Opened::Answered(_) | Opened::Freed) => tx.commit().await?,
            // Before the answer, not when the pool comes to it: the client's next request with this
            // key would find it held.
            _ => {
                let _ = tx.rollback().await;
            }
        }
        opened
    }

    async fn claim(&self, tx: &mut PgConnection, ask: &Ask, wait: Wait) -> sqlx::Result<Opened> {
        let (scope, window) = (ask.scope(), self.key_window_seconds);
        Ok(
            match keys::claim(tx, scope, &ask.fingerprint, Some(ask.id), window).await? {
                Claim::New => store(tx, ask, wait).await?,
                Claim::Completed(answer) => Opened::Replayed(answer),
                Claim::Mismatch => Opened::Mismatch,
                Claim::InFlight { resource_id } => Opened::InFlight {
                    payment_id: resource_id,
                },
                // Written by a version that this one cannot read: the payment says it all.
                Claim::Unreadable { resource_id } => {
                    Opened::Replayed(derive_answer(tx, ask, resource_id).await?)
                }
                Claim::Expired => {
                    keys::forget_expired(tx, scope).await?;
                    Opened::Freed
                }
            },
        )
    }

    /// Waits for the outcome, holding neither a connection nor a transaction. An error is one of the
    /// last look: while there is time, the store may come back.
    pub async fn outcome(&self, ask: &Ask, wait: Wait) -> Result<Outcome, database::Error> {
        let deadline = Instant::now() + self.wait;
        loop {
            let next_look = deadline.min(Instant::now() + self.poll);
            tokio::select! {
                () = wait.settled() => {}
                () = tokio::time::sleep_until(next_look) => {}
                () = self.closing.cancelled() => {}
            }
            let is_last = Instant::now() >= deadline || self.closing.is_cancelled();
            match database::query_with_timeout(STORE_TIMEOUT, self.look(ask)).await {
                Ok(Outcome::Settled(answer)) => return Ok(Outcome::Settled(answer)),
                seen if is_last => return seen,
                _ => {}
            }
        }
    }

    /// The payment first: it is settled in the commit that completes the key.
    async fn look(&self, ask: &Ask) -> sqlx::Result<Outcome> {
        let mut connection = database::acquire(&self.pool).await?;
        let payment = direct::find(&mut connection, &ask.principal.id, ask.id).await?;
        let payment = payment.ok_or(sqlx::Error::RowNotFound)?;
        if payment.is_open() {
            return Ok(Outcome::Open(Box::new(payment)));
        }
        let found = keys::find(&mut connection, ask.scope(), &ask.fingerprint).await?;
        Ok(Outcome::Settled(match found {
            Some(Claim::Completed(answer)) => answer,
            _ => view::of_payment(&payment),
        }))
    }
}

/// The attempt beside the claim; or, if its reference is taken, what the first payment has to say.
async fn store(tx: &mut PgConnection, ask: &Ask, wait: Wait) -> sqlx::Result<Opened> {
    let context = Context::current();
    let payment = NewPayment {
        id: ask.id,
        principal_id: &ask.principal.id,
        key: &ask.key,
        charge: &ask.charge,
        content_hash: &ask.content_hash,
        correlation_id: &context.correlation_id,
        traceparent: context.traceparent.as_deref(),
    };
    if direct::open(tx, &payment).await? {
        return Ok(Opened::New(wait));
    }
    let first = find_first(tx, ask).await?;
    let is_same = first.content_hash == ask.content_hash.as_bytes();
    if is_same && first.is_open() {
        let payment_id = first.id;
        return Ok(Opened::ReferenceInFlight { payment_id });
    }
    let answer = view::of_taken_reference(&first, &ask.content_hash);
    keys::complete(tx, ask.scope(), &answer).await?;
    Ok(Opened::Answered(answer))
}

/// The payment that has the reference.
async fn find_first(tx: &mut PgConnection, ask: &Ask) -> sqlx::Result<Payment> {
    let reference = ask.charge.reference.as_deref().unwrap_or_default();
    let first = direct::find_by_reference(tx, &ask.principal.id, reference).await?;
    first.ok_or(sqlx::Error::RowNotFound)
}

/// The key made a payment, or met its reference taken; the table still says which.
async fn derive_answer(
    tx: &mut PgConnection,
    ask: &Ask,
    resource_id: Option<Uuid>,
) -> sqlx::Result<StoredResponse> {
    if let Some(id) = resource_id
        && let Some(made) = direct::find(tx, &ask.principal.id, id).await?
    {
        return Ok(view::of_payment(&made));
    }
    let first = find_first(tx, ask).await?;
    Ok(view::of_taken_reference(&first, &ask.content_hash))
}
