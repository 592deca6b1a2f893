//! `PUT /orders/{id}`: idempotent by its URL, without a key and without a time limit.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use idempotency::http;
use service_kit::database::{self, Inconsistent};
use service_kit::openapi_errors::{
    Malformed, TooLarge, Unauthenticated, Unavailable, UnsupportedMediaType,
};
use telemetry::http::SpanAttribute;
use uuid::Uuid;

use crate::domain::admission::Admittance;
use crate::domain::draft;
use crate::domain::order::Order;
use crate::responses::{self, PlacedOrder};
use crate::routes::openapi_errors::{Conflict, Unprocessable};
use crate::routes::request::{self, bounded};
use crate::routes::{Error, Services};
use crate::store::intake::{NewOrder, Placement};
use crate::store::orders;

/// Places an order under an id that the caller chose. Safe to repeat at any time.
#[utoipa::path(
    put,
    path = "/orders/{id}",
    operation_id = "put_order",
    params(("id" = Uuid, Path, description = "Chosen by the caller; use a new UUID per order")),
    request_body = draft::Request,
    responses(
        (
            status = 201, description = "Placed", body = PlacedOrder<'static>,
            headers(("Location" = String, description = "URL of the order"))
        ),
        (
            status = 200, description = "Placed before, with the same content",
            body = PlacedOrder<'static>,
            headers(("Location" = String, description = "URL of the order"))
        ),
        Malformed, Unauthenticated, Conflict, TooLarge, UnsupportedMediaType, Unprocessable,
        Unavailable
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
    let body = request::read(&headers, body).await?;
    let order = Arc::new(request::prepare(id, principal, None, body)?);
    let admittance = services.admission.admit(&order.principal.id);
    let (response, is_new) = bounded(put(&services, &order, admittance)).await?;
    if is_new {
        request::slow_down(&services, &order, admittance).await;
    }
    Ok(response)
}

/// Returns the response, and whether the order is new.
async fn put(
    services: &Services,
    order: &Arc<NewOrder>,
    admittance: Admittance,
) -> Result<(Response, bool), Error> {
    if admittance == Admittance::Shed {
        return match find(services, order).await? {
            Some(first) => Ok((respond_same(&first, order)?, false)),
            None => Err(request::overloaded(services)),
        };
    }
    match services.intake.submit(order.clone()).await? {
        Placement::Placed => {
            let mut response = http::response(order.response.clone());
            let about = SpanAttribute("order.id", order.id.to_string());
            response.extensions_mut().insert(about);
            Ok((response, true))
        }
        Placement::Known => Ok((respond_known(services, order).await?, false)),
        Placement::ReferenceTaken(_) | Placement::InFlight => Err(Inconsistent::new(
            "a request without a key has the outcome of one with a key",
        )
        .into()),
    }
}

async fn find(services: &Services, order: &NewOrder) -> Result<Option<Order>, Error> {
    let mut connection = database::acquire(&services.pool).await?;
    Ok(orders::find(&mut connection, &order.principal.id, order.id).await?)
}

/// 200 for the same content, 409 for other content.
fn respond_same(first: &Order, order: &NewOrder) -> Result<Response, Error> {
    if first.content_hash == order.content_hash.as_bytes() {
        return Ok(http::response(responses::for_known_order(first)));
    }
    Err(Error::Conflict {
        order_id: Some(first.id),
    })
}

/// 200 for the same content. 409 for other content under this id, or for a reference that another
/// order has.
async fn respond_known(services: &Services, order: &NewOrder) -> Result<Response, Error> {
    if let Some(first) = find(services, order).await? {
        return respond_same(&first, order);
    }
    let mut connection = database::acquire(&services.pool).await?;
    let principal = &order.principal.id;
    let by_reference = match &order.draft.reference {
        Some(reference) => orders::find_by_reference(&mut connection, principal, reference).await?,
        None => None,
    };
    // If neither was found, another principal owns the id. The response reveals nothing about that
    // order.
    Err(Error::Conflict {
        order_id: by_reference.map(|first| first.id),
    })
}
