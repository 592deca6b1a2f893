//! `GET /orders/{id}`, with the order's version as its ETag.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use service_kit::database;
use service_kit::openapi_errors::{Malformed, NotFound, Unauthenticated, Unavailable};
use uuid::Uuid;

use crate::routes::request::bounded;
use crate::routes::view::{self, OrderView};
use crate::routes::{Error, Services};
use crate::store::orders;

/// Returns one of the caller's orders.
#[utoipa::path(
    get,
    path = "/orders/{id}",
    operation_id = "get_order",
    params(
        ("id" = Uuid, Path),
        ("If-None-Match" = Option<String>, Header, description = "An `ETag` from an earlier response")
    ),
    responses(
        (
            status = 200, description = "The order as it is now", body = OrderView,
            headers(("ETag" = String, description = "The order's version, quoted"))
        ),
        (
            status = 304, description = "The order is still at the version that `If-None-Match` names",
            headers(("ETag" = String, description = "The order's version, quoted"))
        ),
        Malformed, Unauthenticated, NotFound, Unavailable
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
    bounded(read(&services, &principal.id, id, &headers)).await
}

async fn read(
    services: &Services,
    principal_id: &str,
    id: Uuid,
    headers: &HeaderMap,
) -> Result<Response, Error> {
    let mut connection = database::acquire(&services.pool).await?;
    let order = orders::find(&mut connection, principal_id, id)
        .await?
        .ok_or(Error::NotFound)?;
    let etag = view::etag(order.version);
    if is_not_modified(headers, &etag) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response());
    }
    let items = orders::items(&mut connection, id).await?;
    let view = OrderView::new(order, Some(items));
    Ok(([(header::ETAG, etag)], Json(view)).into_response())
}

/// Whether `If-None-Match` names the version: `*`, or a list of tags. A tag may be weak, because a
/// compressing proxy makes it weak.
fn is_not_modified(headers: &HeaderMap, etag: &str) -> bool {
    let lists = headers.get_all(header::IF_NONE_MATCH).iter();
    lists
        .filter_map(|list| list.to_str().ok())
        .flat_map(|list| list.split(','))
        .map(|tag| tag.trim())
        .any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}
