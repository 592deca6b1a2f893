//! `POST /orders/{id}/payments`: pays a declined or failed order again, once per key.

use std::sync::Arc;

use api_keys::Principal;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use events::OrderPaymentRequested;
use idempotency::store::{CLAIM_ROUNDS_MAX, Claim};
use idempotency::{ContentHash, Fingerprint, Key, Scope, StoredResponse, http, store};
use money::{Currency, InvalidPaymentMethod};
use service_kit::database::{self, Inconsistent};
use service_kit::openapi_errors::{
    Malformed, NotFound, TooLarge, Unauthenticated, Unavailable, UnsupportedMediaType,
};
use service_kit::{RequestError, body, crash};
use sqlx::{Connection as _, PgConnection};
use telemetry::http::SpanAttribute;
use telemetry::metric;
use uuid::Uuid;

use crate::domain::event::{ATTEMPT_VERSION, lines};
use crate::domain::order::Order;
use crate::domain::{NotPayable, PaymentRequest, Status, pay_again};
use crate::responses::{self, OpenedAttempt};
use crate::routes::openapi_errors::{self, Unprocessable};
use crate::routes::request::{self, bounded};
use crate::routes::{Error, Services};
use crate::store::attempts;
use crate::store::orders;

pub(super) const ROUTE: &str = "POST /orders/{id}/payments";

/// Pays a declined or failed order again, once per key.
#[utoipa::path(
    post,
    path = "/orders/{id}/payments",
    operation_id = "pay_order",
    params(
        ("id" = Uuid, Path),
        (
            "Idempotency-Key" = String, Header, min_length = 1, max_length = 255,
            description = "Identifies this payment: create it once and send it with every retry. \
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
                `GET` of the order shows its outcome",
            body = OpenedAttempt<'static>,
            headers(
                ("Location" = String, description = "URL of the order"),
                ("Idempotent-Replayed" = bool, description = "`true` on a replay")
            )
        ),
        Malformed, Unauthenticated, NotFound, openapi_errors::NotPayable, TooLarge, UnsupportedMediaType,
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
    let request: PaymentRequest = request::decode(body, Error::Payment)?;
    let path = format!("/orders/{id}/payments");
    let payment = CheckedRequest {
        order_id: id,
        payment_method: request.check().map_err(invalid)?,
        fingerprint: Fingerprint::of(&principal.fingerprint_salt, "POST", &path, &content),
        principal,
        key,
    };
    let mut response = bounded(pay_in_rounds(&services, &payment)).await?;
    let about = SpanAttribute("order.id", id.to_string());
    response.extensions_mut().insert(about);
    Ok(response)
}

async fn pay_in_rounds(services: &Services, payment: &CheckedRequest) -> Result<Response, Error> {
    for _ in 0..CLAIM_ROUNDS_MAX {
        if let Some(response) = try_pay(services, payment).await? {
            return Ok(response);
        }
    }
    Err(Error::PaymentInFlight {
        order_id: payment.order_id,
    })
}

fn invalid(error: InvalidPaymentMethod) -> Error {
    match error {
        InvalidPaymentMethod::CardNumber => RequestError::CardNumber.into(),
        InvalidPaymentMethod::Name => Error::Payment(error.to_string()),
    }
}

/// A request that passed every check.
struct CheckedRequest {
    order_id: Uuid,
    principal: Arc<Principal>,
    key: Key,
    fingerprint: Fingerprint,
    payment_method: money::PaymentMethod,
}

impl CheckedRequest {
    fn scope(&self) -> Scope<'_> {
        Scope {
            principal_id: &self.principal.id,
            route: ROUTE,
            key: &self.key,
        }
    }
}

/// The result of the transaction.
enum Claimed {
    /// The key is new; this response is stored under it.
    New(StoredResponse),
    /// The key has this response already.
    Known(StoredResponse),
    /// The key had expired and was deleted.
    Freed,
}

/// The response, new or replayed; `None` if the key is free again.
async fn try_pay(services: &Services, payment: &CheckedRequest) -> Result<Option<Response>, Error> {
    let mut connection = database::acquire(&services.pool).await?;
    let mut tx = connection.begin().await?;
    match claim(&mut tx, services.key_window_seconds, payment).await {
        Ok(Claimed::New(response)) => {
            tx.commit().await?;
            crash::point("pay_again.committed");
            services.wake.wake();
            Ok(Some(http::response(response)))
        }
        Ok(Claimed::Freed) => {
            tx.commit().await?;
            Ok(None)
        }
        // Roll back before the response. The pool would do it later, and the client's next request
        // with this key could find the key locked.
        Ok(Claimed::Known(response)) => {
            let _ = tx.rollback().await;
            Ok(Some(http::replay(response)))
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
    payment: &CheckedRequest,
) -> Result<Claimed, Error> {
    let (scope, id) = (payment.scope(), payment.order_id);
    let fingerprint = &payment.fingerprint;
    match store::claim(tx, scope, fingerprint, Some(id), window_seconds).await? {
        Claim::New => decide(tx, payment).await.map(Claimed::New),
        Claim::Completed(response) => {
            count("replayed");
            Ok(Claimed::Known(response))
        }
        Claim::Mismatch => {
            count("mismatch");
            Err(RequestError::KeyReused.into())
        }
        Claim::InFlight { .. } => {
            count("in_flight");
            Err(Error::PaymentInFlight { order_id: id })
        }
        // A newer version of the service stored the response in a format that this one cannot read.
        // The payment is not made again: the response shows the order's current attempt.
        Claim::Unreadable { .. } => {
            let order = orders::find(tx, &payment.principal.id, id).await?;
            let order = order.ok_or(Error::NotFound)?;
            Ok(Claimed::Known(responses::for_known_attempt(&order)))
        }
        Claim::Expired => {
            store::forget_expired(tx, scope).await?;
            Ok(Claimed::Freed)
        }
    }
}

/// Stores attempt, event, and key with its response, for one commit. If the order cannot be paid
/// and that is final, stores the problem under the key instead. Two requests with different keys
/// both need the order's lock: the second one finds the attempt of the first one open.
async fn decide(tx: &mut PgConnection, payment: &CheckedRequest) -> Result<StoredResponse, Error> {
    let order_id = payment.order_id;
    let order = orders::find_and_lock(tx, &payment.principal.id, order_id)
        .await?
        .ok_or(Error::NotFound)?;
    let status: Status = order.status.parse().map_err(Error::Status)?;
    let (outcome, response) = match pay_again(status, order.cancel_requested) {
        Ok(()) => ("placed", open(tx, &order, payment).await?),
        // Not final: nothing is stored, and the key stays free.
        Err(reason @ NotPayable::Open) => return Err(Error::NotPayable { order_id, reason }),
        Err(reason) => {
            let problem = responses::not_payable(order_id, reason);
            ("not_payable", StoredResponse::from(&problem))
        }
    };
    store::complete(tx, payment.scope(), &response).await?;
    count(outcome);
    Ok(response)
}

/// Opens the order's next attempt and enqueues its event.
async fn open(
    tx: &mut PgConnection,
    order: &Order,
    payment: &CheckedRequest,
) -> Result<StoredResponse, Error> {
    let payment_method = payment.payment_method.as_str();
    let items = orders::items(tx, order.id).await?;
    if !attempts::open_next(tx, order.id, order.version, payment_method).await? {
        return Err(Inconsistent::new("a locked order changed").into());
    }
    let event = OrderPaymentRequested {
        v: ATTEMPT_VERSION,
        order_id: order.id,
        attempt: order.attempt + 1,
        customer_id: order.customer_id.clone(),
        amount: order.amount,
        currency: Currency::parse(&order.currency).map_err(unreadable)?,
        payment_method: payment_method.to_owned(),
        lines: lines(items).map_err(unreadable)?,
        principal_id: payment.principal.id.clone(),
    };
    outbox::enqueue(tx, &[request::seal(&event)?]).await?;
    Ok(responses::for_new_attempt(order, payment_method))
}

/// The table has a value that this service never writes.
fn unreadable(error: impl std::error::Error) -> Inconsistent {
    Inconsistent::new(format!("a stored order is unreadable: {error}"))
}

fn count(outcome: &'static str) {
    metrics::counter!(metric::IDEMPOTENCY_OUTCOMES, "route" => ROUTE, "outcome" => outcome)
        .increment(1);
}
