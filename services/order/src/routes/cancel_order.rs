//! `DELETE /orders/{id}`: records a cancellation request, once.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use events::{Envelope, OrderCancelRequested, OrderCancelled};
use service_kit::crash;
use service_kit::database::{self, Inconsistent};
use service_kit::openapi_errors::{Malformed, NotFound, Unauthenticated, Unavailable};
use sqlx::Connection as _;
use telemetry::http::SpanAttribute;
use uuid::Uuid;

use crate::domain::order::Order;
use crate::domain::{Cancellation, Status, cancel};
use crate::routes::if_match::IfMatch;
use crate::routes::openapi_errors::{PreconditionFailed, Shipped};
use crate::routes::request::{self, bounded};
use crate::routes::{Error, Services};
use crate::store::cancellations::{self, CancellationRequest};
use crate::store::orders;

/// The number of steps that the request itself adds to the version.
const REQUEST_STEPS: i32 = 1;
/// Why a cancelled order does not ship, as fulfilment names it too.
const REASON: &str = "cancelled";

/// Requests the cancellation of an order. Safe to repeat at any time.
///
/// 204 means that the cancellation request is stored, not that the order is cancelled: it may be
/// too late. `GET` shows the outcome: `cancelled` if no money was taken, `refunded` if it was
/// returned, `shipped` if it was too late. Needs no key: a repeat gets 204 and changes nothing.
#[utoipa::path(
    delete,
    path = "/orders/{id}",
    operation_id = "cancel_order",
    params(
        ("id" = Uuid, Path),
        (
            "If-Match" = Option<String>, Header,
            description = "Cancel only if the order is at one of these versions: `ETag`s, compared \
                strongly, or `*`. Not checked if a cancellation request is recorded already, so \
                that a retry after a lost response gets 204."
        )
    ),
    responses(
        (
            status = 204,
            description = "The cancellation request is stored. `GET` shows the outcome: \
                `cancelled`, `refunded`, or `shipped` if it was too late"
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

/// Stores request and event in one commit, under the order's lock: a consumer that changes the
/// order comes before or after, never in between.
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
    match to_record(&order, condition) {
        Ok(Some(request)) => {
            let event = event(&order, request.status)?;
            outbox::enqueue(&mut tx, &[event]).await?;
            if !cancellations::record(&mut tx, &request).await? {
                return Err(Inconsistent::new("a locked order changed").into());
            }
            tx.commit().await?;
            crash::point("cancel.committed");
            services.wake.wake();
            Ok(())
        }
        other => {
            // Roll back now. The pool would do it later, when the connection returns to it, and
            // other requests wait for the lock.
            let _ = tx.rollback().await;
            other.map(|_| ())
        }
    }
}

/// The request to record; `None` if there is nothing to record.
fn to_record(order: &Order, condition: &IfMatch) -> Result<Option<CancellationRequest>, Error> {
    let status: Status = order.status.parse().map_err(Error::Status)?;
    let cancellation = cancel(status, order.cancel_requested);
    if cancellation == Cancellation::AlreadyRequested {
        return Ok(None);
    }
    if !condition.holds(order.version) {
        return Err(Error::PreconditionFailed);
    }
    let after = match cancellation {
        Cancellation::AlreadyRequested | Cancellation::NothingToCancel => return Ok(None),
        Cancellation::TooLate => return Err(Error::Shipped),
        Cancellation::AskFulfilment => status,
        Cancellation::Immediate => Status::Cancelled,
    };
    Ok(Some(CancellationRequest {
        order_id: order.id,
        version: order.version,
        status: after,
        steps: REQUEST_STEPS + status.steps_to(after),
    }))
}

/// What to announce about an order that has this status after the request.
fn event(order: &Order, status: Status) -> Result<Envelope, Error> {
    let (v, order_id, attempt) = (request::PAYLOAD_VERSION, order.id, order.attempt);
    match status {
        // For the customer: the order is terminal, and no other service announces that.
        Status::Cancelled => request::seal(&OrderCancelled {
            v,
            order_id,
            attempt,
            customer_id: order.customer_id.clone(),
            reason: REASON.to_owned(),
        }),
        // For fulfilment, which decides whether the order ships.
        _ => request::seal(&OrderCancelRequested {
            v,
            order_id,
            attempt,
        }),
    }
}
