//! `PUT /orders/{id}`: idempotent by its URL, with no key and for ever.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use idempotency::http;

use crate::intake::Verdict;
use crate::routes::{Error, Services, request, view};
use crate::store::intake::NewOrder;
use crate::store::orders;

pub(super) async fn handle(
    State(services): State<Services>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let principal = services.authenticator.principal(&headers).await?;
    let id = id.parse().map_err(|_| Error::OrderId)?;
    let body = request::read(&headers, body).await?;
    let order = request::prepare(id, principal, None, body)?;
    match services.intake.submit(order).await? {
        Verdict::Placed(order) => Ok(http::response(order.answer)),
        Verdict::Answered(answer) => Ok(http::response(answer)),
        Verdict::InFlight => Err(Error::KeyInFlight),
        Verdict::Known(order) => known(&services, &order).await,
    }
}

/// The same again is 200; anything else under this id, or this reference under another id, is 409.
async fn known(services: &Services, order: &NewOrder) -> Result<Response, Error> {
    let mut connection = services.pool.acquire().await?;
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
