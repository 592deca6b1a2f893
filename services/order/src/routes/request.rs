//! Shared by the routes that change orders: reading the body, and preparing everything that is
//! stored.

use std::sync::Arc;

use api_keys::Principal;
use axum::body::Body;
use axum::http::HeaderMap;
use events::{Envelope, Event, OrderPlaced, Origin};
use idempotency::ContentHash;
use serde::de::DeserializeOwned;
use serde_json::Value;
use service_kit::body::WrongMembers;
use service_kit::{RequestError, body, database};
use telemetry::{Context, metric};
use uuid::Uuid;

use crate::domain::admission::Admittance;
use crate::domain::event::{ATTEMPT_VERSION, SOURCE};
use crate::domain::{Draft, draft};
use crate::responses;
use crate::routes::{Error, Services};
use crate::store::intake::{KeyClaim, NewOrder};

/// A checked order, and the hash of its canonical JSON.
pub(super) struct OrderBody {
    pub(super) draft: Draft,
    pub(super) content_hash: ContentHash,
}

/// The version of the event payloads.
pub(super) const PAYLOAD_VERSION: u16 = 1;
const FIRST_ATTEMPT: i32 = 1;

pub(super) async fn read(headers: &HeaderMap, body: Body) -> Result<OrderBody, Error> {
    let value = body::read_json(headers, body).await?;
    let content_hash = ContentHash::of(&value);
    let request: draft::Request = decode(value, Error::Shape)?;
    Ok(OrderBody {
        draft: Draft::check(request)?,
        content_hash,
    })
}

/// Reads the members of a body. `wrong` is the error for other members.
pub(super) fn decode<T: DeserializeOwned>(
    body: Value,
    wrong: fn(String) -> Error,
) -> Result<T, Error> {
    body::decode(body).map_err(|error| match error {
        WrongMembers::Shape(reason) => wrong(reason),
        WrongMembers::CardNumber => RequestError::CardNumber.into(),
    })
}

/// Everything that one commit stores. Nothing is computed after the commit.
pub(super) fn prepare(
    id: Uuid,
    principal: Arc<Principal>,
    claim: Option<KeyClaim>,
    body: OrderBody,
) -> Result<NewOrder, Error> {
    let event = OrderPlaced {
        v: ATTEMPT_VERSION,
        order_id: id,
        attempt: FIRST_ATTEMPT,
        customer_id: body.draft.customer_id.clone(),
        amount: body.draft.total.amount(),
        currency: body.draft.total.currency(),
        payment_method: body.draft.payment_method.to_string(),
        lines: body.draft.lines(),
        principal_id: principal.id.clone(),
    };
    Ok(NewOrder {
        id,
        principal,
        claim,
        response: responses::for_new_order(id, &body.draft),
        event: seal(&event)?,
        content_hash: body.content_hash,
        draft: body.draft,
    })
}

/// The event as this service publishes it, with the context of the current request.
pub(super) fn seal<E: Event>(event: &E) -> Result<Envelope, Error> {
    let context = Context::current();
    let origin = Origin {
        source: SOURCE,
        correlation_id: &context.correlation_id,
        traceparent: context.traceparent.clone(),
    };
    Envelope::seal(origin, event).map_err(Error::Event)
}

/// The response to a new order while others wait too long.
pub(super) fn overloaded(services: &Services) -> Error {
    metrics::counter!(metric::ORDERS_SHED).increment(1);
    Error::Overloaded(services.admission.retry_after())
}

/// Counts a new order, and delays its response while orders wait. The order is stored: a client that does not wait
/// finds it when it retries.
pub(super) async fn slow_down(services: &Services, order: &NewOrder, admittance: Admittance) {
    services.admission.accepted(&order.principal.id);
    if let Admittance::Accept { delay } = admittance
        && !delay.is_zero()
    {
        tokio::time::sleep(delay).await;
    }
}

/// Abandons work on the store after [`database::STORE_TIMEOUT`].
pub(super) async fn bounded<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    database::with_timeout(database::STORE_TIMEOUT, work).await
}
