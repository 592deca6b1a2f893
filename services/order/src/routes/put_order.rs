//! `PUT /orders/{id}`: idempotent by its URL, with no key and for ever.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use idempotency::http;
use service_kit::database;
use uuid::Uuid;

use crate::domain::draft;
use crate::intake::Verdict;
use crate::routes::refusal::{
    Conflict, Malformed, TooLarge, Unauthenticated, Unavailable, Unprocessable,
    UnsupportedMediaType,
};
use crate::routes::request::{self, bounded};
use crate::routes::{Error, Services, view};
use crate::store::intake::NewOrder;
use crate::store::orders;

/// Places an order under an id of the caller's choice, any number of times.
#[utoipa::path(
    put,
    path = "/orders/{id}",
    operation_id = "put_order",
    params(("id" = Uuid, Path, description = "Chosen by the caller, best a fresh UUID")),
    request_body = draft::Request,
    responses(
        (
            status = 201, description = "Placed", body = view::Receipt<'static>,
            headers(("Location" = String, description = "URL of the order"))
        ),
        (
            status = 200, description = "Placed before with the same content",
            body = view::Receipt<'static>,
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
    let order = request::prepare(id, principal, None, body)?;
    bounded(put(&services, order)).await
}

async fn put(services: &Services, order: NewOrder) -> Result<Response, Error> {
    match services.intake.submit(order).await? {
        Verdict::Placed(order) => Ok(http::response(order.answer)),
        Verdict::Answered(answer) => Ok(http::response(answer)),
        Verdict::InFlight => Err(Error::KeyInFlight),
        Verdict::Known(order) => known(services, &order).await,
    }
}

/// The same again is 200; anything else under this id, or this reference under another id, is 409.
async fn known(services: &Services, order: &NewOrder) -> Result<Response, Error> {
    let mut connection = database::acquire(&services.pool).await?;
    let principal = &order.principal.id;
    if let Some(first) = orders::find(&mut connection, principal, order.id).await? {
        return if first.content_hash == order.content_hash.as_bytes() {
            Ok(http::response(view::of_known_order(&first)))
        } else {
            Err(Error::Conflict {
                order_id: Some(first.id),
            })
        };
    }
    let by_reference = match &order.draft.reference {
        Some(reference) => orders::find_by_reference(&mut connection, principal, reference).await?,
        None => None,
    };
    // Neither: the id belongs to somebody else, about whom nothing is said.
    Err(Error::Conflict {
        order_id: by_reference.map(|first| first.id),
    })
}
