//! `DELETE /orders/{id}`: the wish that an order should not ship, recorded once.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use events::OrderCancelRequested;
use service_kit::{crash, database};
use sqlx::Connection as _;
use telemetry::http::SpanAttribute;
use uuid::Uuid;

use crate::domain::{Cancellation, Status, cancel};
use crate::routes::if_match::IfMatch;
use crate::routes::refusal::{
    Malformed, NotFound, PreconditionFailed, Shipped, Unauthenticated, Unavailable,
};
use crate::routes::request::{self, bounded};
use crate::routes::{Error, Services};
use crate::store::orders::{self, Order};
use crate::store::wishes::{self, CancelWish};

/// What the wish itself adds to the version.
const WISH_STEPS: i32 = 1;

/// Asks for an order not to ship, any number of times.
///
/// 204 means that the wish is stored, not that it came true: the order may be on its way already.
/// `GET` shows what came of it: `cancelled` if no money was taken, `refunded` if it was given back,
/// `shipped` if it was too late. Needs no key: a repeat is answered 204 and changes nothing.
#[utoipa::path(
    delete,
    path = "/orders/{id}",
    operation_id = "cancel_order",
    params(
        ("id" = Uuid, Path),
        (
            "If-Match" = Option<String>, Header,
            description = "Only if the order is still at one of these versions: `ETag`s, compared \
                strongly, or `*`. Not asked of a wish that is recorded already, so that a retry \
                whose first answer was lost is told 204."
        )
    ),
    responses(
        (
            status = 204,
            description = "The wish is stored. `GET` shows what came of it: `cancelled`, \
                `refunded`, or `shipped` if it was too late"
        ),
        Malformed, Unauthenticated, NotFound, Shipped, PreconditionFailed, Unavailable
    ),
    security(("bearer" = []))
)]
pub(super) async fn handle(
    State(services): State<Services>,
    id: Result<Path<Uuid>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let principal = services.authenticator.principal(&headers).await?;
    let Path(id) = id.map_err(|_| Error::OrderId)?;
    let condition = IfMatch::read(&headers)?;
    bounded(record(&services, &principal.id, id, &condition)).await?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    let about = SpanAttribute("order.id", id.to_string());
    response.extensions_mut().insert(about);
    Ok(response)
}

/// Wish and event in one commit, under the order's lock: a consumer that is just moving the order
/// comes before or after, never in between.
async fn record(
    services: &Services,
    principal_id: &str,
    id: Uuid,
    condition: &IfMatch,
) -> Result<(), Error> {
    let mut connection = database::acquire(&services.pool).await?;
    let mut tx = connection.begin().await?;
    let order = orders::find_and_lock(&mut tx, principal_id, id)
        .await?
        .ok_or(Error::NotFound)?;
    match wish(&order, condition) {
        Ok(Some(wish)) => {
            if wish.status != Status::Cancelled {
                outbox::enqueue(&mut tx, &[request::seal(&event(&order))?]).await?;
            }
            // The row is locked, so it is what it was; if not, the next try sees what it is.
            if !wishes::request_cancel(&mut tx, &wish).await? {
                return Err(Error::Unavailable);
            }
            tx.commit().await?;
            crash::point("cancel.committed");
            services.wake.wake();
            Ok(())
        }
        other => {
            // Before the answer, not when the pool comes to it: the lock is in others' way.
            let _ = tx.rollback().await;
            other.map(|_| ())
        }
    }
}

/// What is to be recorded; `None` if nothing is, because there is nothing left to wish for.
fn wish(order: &Order, condition: &IfMatch) -> Result<Option<CancelWish>, Error> {
    let status: Status = order.status.parse()?;
    let cancellation = cancel(status, order.cancel_requested);
    if cancellation == Cancellation::Repeated {
        return Ok(None);
    }
    if !condition.holds(order.version) {
        return Err(Error::PreconditionFailed);
    }
    let after = match cancellation {
        Cancellation::Repeated | Cancellation::Moot => return Ok(None),
        Cancellation::TooLate => return Err(Error::Shipped),
        Cancellation::Ask => status,
        Cancellation::AtOnce => Status::Cancelled,
    };
    Ok(Some(CancelWish {
        order_id: order.id,
        version: order.version,
        status: after,
        steps: WISH_STEPS + status.steps_to(after),
    }))
}

/// Nobody acts on it but fulfilment.
fn event(order: &Order) -> OrderCancelRequested {
    OrderCancelRequested {
        v: request::PAYLOAD_VERSION,
        order_id: order.id,
        attempt: order.attempt,
    }
}
