//! `GET /orders/{id}`, with its version as ETag.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::routes::view::OrderView;
use crate::routes::{Error, Services};
use crate::store::orders;

pub(super) async fn handle(
    State(services): State<Services>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let principal = services.authenticator.principal(&headers).await?;
    let id = id.parse().map_err(|_| Error::OrderId)?;
    let mut connection = services.pool.acquire().await?;
    let order = orders::find(&mut connection, &principal.id, id)
        .await?
        .ok_or(Error::NotFound)?;
    let etag = format!("\"{}\"", order.version);
    let known = headers.get(header::IF_NONE_MATCH);
    if known.is_some_and(|known| known.as_bytes() == etag.as_bytes()) {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response());
    }
    let items = orders::items(&mut connection, id).await?;
    let view = OrderView::new(order, Some(items));
    Ok(([(header::ETAG, etag)], Json(view)).into_response())
}
