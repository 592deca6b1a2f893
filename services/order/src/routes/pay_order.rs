//! `POST /orders/{id}/payments`: a declined order is paid again, once per key.

use std::sync::Arc;

use api_keys::Principal;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use events::{Line, OrderPaymentRequested};
use idempotency::store::Claim;
use idempotency::{ContentHash, Fingerprint, Key, Scope, StoredResponse, http, store};
use money::Currency;
use service_kit::{body, crash, database};
use sqlx::{Connection as _, PgConnection};
use telemetry::http::SpanAttribute;
use telemetry::metric;
use uuid::Uuid;

use crate::domain::{NotPayable, PaymentRequest, Status, pay_again};
use crate::routes::refusal::{
    self, Malformed, NotFound, TooLarge, Unauthenticated, Unavailable, Unprocessable,
    UnsupportedMediaType,
};
use crate::routes::request::{self, bounded};
use crate::routes::{Error, Services, error, view};
use crate::store::orders::{self, Item, Order};
use crate::store::wishes;

pub(super) const ROUTE: &str = "POST /orders/{id}/payments";

/// How often a request whose key expired, or was reaped, between two looks is run again.
const ROUNDS_MAX: u8 = 3;

/// Pays a declined order again, once per key.
#[utoipa::path(
    post,
    path = "/orders/{id}/payments",
    operation_id = "pay_order",
    params(
        ("id" = Uuid, Path),
        (
            "Idempotency-Key" = String, Header, min_length = 1, max_length = 255,
            description = "Names this one intention: mint it once, send it with every retry. \
                Visible ASCII, bare or as a quoted structured-field string. See \
                /idempotency-policy.",
            example = "payment-7f3a"
        )
    ),
    request_body = PaymentRequest,
    responses(
        (
            status = 201,
            description = "The next attempt is open, by this or an earlier request with this key. \
                `GET` of the order shows what comes of it",
            body = view::Payment<'static>,
            headers(
                ("Location" = String, description = "URL of the order"),
                ("Idempotent-Replayed" = bool, description = "`true` if this was answered before")
            )
        ),
        Malformed, Unauthenticated, NotFound, refusal::NotPayable, TooLarge, UnsupportedMediaType,
        Unprocessable, Unavailable
    ),
    security(("bearer" = []))
)]
pub(super) async fn handle(
    State(services): State<Services>,
    id: Result<Path<Uuid>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let principal = services.authenticator.principal(&headers).await?;
    let Path(id) = id.map_err(|_| Error::OrderId)?;
    let key = http::key(&headers)?;
    let body = body::read_json(&headers, body).await?;
    let content = ContentHash::of(&body);
    let invalid = |reason: &dyn std::fmt::Display| Error::Payment(reason.to_string());
    let asked: PaymentRequest = serde_json::from_value(body).map_err(|error| invalid(&error))?;
    let path = format!("/orders/{id}/payments");
    let payment = Payment {
        order_id: id,
        payment_method: asked.check().map_err(|error| invalid(&error))?,
        fingerprint: Fingerprint::of(&principal.fingerprint_salt, "POST", &path, &content),
        principal,
        key,
    };
    let mut response = bounded(pay_in_rounds(&services, &payment)).await?;
    let about = SpanAttribute("order.id", id.to_string());
    response.extensions_mut().insert(about);
    Ok(response)
}

async fn pay_in_rounds(services: &Services, payment: &Payment) -> Result<Response, Error> {
    for _ in 0..ROUNDS_MAX {
        if let Some(response) = pay(services, payment).await? {
            return Ok(response);
        }
    }
    Err(Error::PaymentInFlight {
        order_id: payment.order_id,
    })
}

/// A request that was understood.
struct Payment {
    order_id: Uuid,
    principal: Arc<Principal>,
    key: Key,
    fingerprint: Fingerprint,
    payment_method: money::PaymentMethod,
}

impl Payment {
    fn scope(&self) -> Scope<'_> {
        Scope {
            principal_id: &self.principal.id,
            route: ROUTE,
            key: &self.key,
        }
    }
}

/// What a look at the key and the order came to.
enum Outcome {
    /// This is new, and stored under the key once it is committed.
    New(StoredResponse),
    /// The key has an answer.
    Known(StoredResponse),
    /// The key had expired, and is free once this is committed.
    Freed,
}

/// The answer, new or the key's own; `None` if the key is free again.
async fn pay(services: &Services, payment: &Payment) -> Result<Option<Response>, Error> {
    let mut connection = database::acquire(&services.pool).await?;
    let mut tx = connection.begin().await?;
    match claim(&mut tx, services.key_window_seconds, payment).await {
        Ok(Outcome::New(answer)) => {
            tx.commit().await?;
            crash::point("pay_again.committed");
            services.wake.wake();
            Ok(Some(http::response(answer)))
        }
        Ok(Outcome::Freed) => {
            tx.commit().await?;
            Ok(None)
        }
        // Before the answer, not when the pool comes to it: the client's next request with this
        // key would find it held.
        Ok(Outcome::Known(answer)) => {
            let _ = tx.rollback().await;
            Ok(Some(http::replay(answer)))
        }
        Err(error) => {
            let _ = tx.rollback().await;
            Err(error)
        }
    }
}

async fn claim(
    tx: &mut PgConnection,
    window_seconds: u64,
    payment: &Payment,
) -> Result<Outcome, Error> {
    let (scope, id) = (payment.scope(), payment.order_id);
    let print = &payment.fingerprint;
    match store::claim(tx, scope, print, Some(id), window_seconds).await? {
        Claim::New => settle(tx, payment).await.map(Outcome::New),
        Claim::Completed(answer) => {
            count("replayed");
            Ok(Outcome::Known(answer))
        }
        Claim::Mismatch => {
            count("mismatch");
            Err(Error::KeyReused)
        }
        Claim::InFlight { .. } => {
            count("in_flight");
            Err(Error::PaymentInFlight { order_id: id })
        }
        // Written by a version that this one cannot read. Whatever it says, it is not done again:
        // the order shows the attempt in force.
        Claim::Unreadable { .. } => {
            let order = orders::find(tx, &payment.principal.id, id).await?;
            let order = order.ok_or(Error::NotFound)?;
            Ok(Outcome::Known(view::of_known_attempt(&order)))
        }
        Claim::Expired => {
            store::forget_expired(tx, scope).await?;
            Ok(Outcome::Freed)
        }
    }
}

/// Attempt, event, and key with its answer, to be committed together; or the refusal under the key,
/// if it is one that stays. Two requests with two keys meet at the order's lock: the second finds
/// the first one's attempt open.
async fn settle(tx: &mut PgConnection, payment: &Payment) -> Result<StoredResponse, Error> {
    let order_id = payment.order_id;
    let order = orders::find_and_lock(tx, &payment.principal.id, order_id)
        .await?
        .ok_or(Error::NotFound)?;
    let status: Status = order.status.parse()?;
    let (outcome, answer) = match pay_again(status, order.cancel_requested) {
        Ok(()) => (
            "placed",
            open(tx, &order, payment.payment_method.as_str()).await?,
        ),
        // May be another answer in a moment: nothing is stored, the key stays free.
        Err(reason @ NotPayable::Open) => return Err(Error::NotPayable { order_id, reason }),
        Err(reason) => {
            let refusal = error::not_payable(order_id, reason);
            ("refused", view::of_problem(&refusal))
        }
    };
    store::complete(tx, payment.scope(), &answer).await?;
    count(outcome);
    Ok(answer)
}

/// Opens the order's next attempt and announces it.
async fn open(
    tx: &mut PgConnection,
    order: &Order,
    payment_method: &str,
) -> Result<StoredResponse, Error> {
    let items = orders::items(tx, order.id).await?;
    // The row is locked, so it is what it was a moment ago; if not, the next try sees what it is.
    if !wishes::open_attempt(tx, order.id, order.version, payment_method).await? {
        return Err(Error::Unavailable);
    }
    let event = OrderPaymentRequested {
        v: request::PAYLOAD_VERSION,
        order_id: order.id,
        attempt: order.attempt + 1,
        customer_id: order.customer_id.clone(),
        amount: order.amount,
        currency: Currency::parse(&order.currency).map_err(unreadable)?,
        payment_method: payment_method.to_owned(),
        lines: items.into_iter().map(line).collect::<Result<_, _>>()?,
    };
    outbox::enqueue(tx, &[request::seal(&event)?]).await?;
    Ok(view::of_new_attempt(order, payment_method))
}

fn line(item: Item) -> Result<Line, sqlx::Error> {
    Ok(Line {
        sku: item.sku,
        quantity: u32::try_from(item.quantity).map_err(unreadable)?,
    })
}

/// The table holds what this service never stored.
fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> sqlx::Error {
    sqlx::Error::Decode(Box::new(error))
}

fn count(outcome: &'static str) {
    metrics::counter!(metric::IDEMPOTENCY_OUTCOMES, "route" => ROUTE, "outcome" => outcome)
        .increment(1);
}
