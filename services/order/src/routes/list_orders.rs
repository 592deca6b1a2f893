//! `GET /orders?status=&limit=&after=`: the caller's orders, newest first, page by page.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use chrono::DateTime;
use serde::{Deserialize, Serialize};
use service_kit::database;
use service_kit::openapi_errors::{Malformed, Unauthenticated, Unavailable};
use sqlx::PgConnection;
use utoipa::{IntoParams, ToSchema};

use crate::domain::Status;
use crate::domain::order::Order;
use crate::routes::request::bounded;
use crate::routes::view::OrderView;
use crate::routes::{Error, Services};
use crate::store::orders::{self, ListPosition};

const LIMIT_DEFAULT: i64 = 50;
const LIMIT_MAX: i64 = 200;
/// Maximum number of orders that one request examines for a status that has no index.
const EXAMINED_MAX: i64 = 2_000;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// Only orders with this status. A page may then have fewer orders than the limit, or none, and
    /// still have a `next`.
    status: Option<String>,
    /// Orders per page, 1 to 200; the default is 50.
    limit: Option<i64>,
    /// The `next` of the previous page.
    after: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Listing {
    orders: Vec<OrderView>,
    /// Where the next page starts; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// The caller's orders, newest first, page by page.
#[utoipa::path(
    get,
    path = "/orders",
    operation_id = "list_orders",
    params(Page),
    responses(
        (status = 200, description = "One page", body = Listing),
        Malformed, Unauthenticated, Unavailable
    ),
    security(("bearer" = []))
)]
pub(super) async fn handle(
    State(services): State<Services>,
    headers: HeaderMap,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<Listing>, Error> {
    let principal = services.authenticator.principal(&headers).await?;
    let Query(page) = page
        .map_err(|_| Error::Query("use only the parameters status, limit (a number) and after"))?;
    let limit = page.limit.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Error::Query("limit must be between 1 and 200"));
    }
    let status = page.status.map(|name| name.parse::<Status>()).transpose();
    let status =
        status.map_err(|_| Error::Query("status must be an order status such as placed"))?;
    let after = page.after.map(|cursor| parse_cursor(&cursor)).transpose()?;
    let (found, next) = bounded(async {
        let mut connection = database::acquire(&services.pool).await?;
        let listing = find(&mut connection, &principal.id, status, after, limit).await;
        listing.map_err(Error::from)
    })
    .await?;
    let orders = found
        .into_iter()
        .map(|order| OrderView::new(order, None))
        .collect();
    let next = next.map(cursor);
    Ok(Json(Listing { orders, next }))
}

/// The orders of one page, and where the next one starts.
async fn find(
    connection: &mut PgConnection,
    principal_id: &str,
    status: Option<Status>,
    after: Option<ListPosition>,
    limit: i64,
) -> sqlx::Result<(Vec<Order>, Option<ListPosition>)> {
    // One more order than requested shows whether there is a next page.
    let one_more = limit + 1;
    let mut found = match status {
        None => orders::list(connection, principal_id, after, one_more).await?,
        Some(status) if status.is_ended_unshipped() => {
            orders::list_ended(connection, principal_id, status, after, one_more).await?
        }
        Some(status) => {
            let limits = (one_more, EXAMINED_MAX);
            orders::list_among_next(connection, principal_id, status, after, limits).await?
        }
    };
    let has_next = found.len() as i64 > limit;
    found.truncate(limit as usize);
    let next = match status {
        _ if has_next => found.last().map(|order| (order.created_at, order.id)),
        Some(status) if !status.is_ended_unshipped() => {
            orders::position_after(connection, principal_id, after, EXAMINED_MAX).await?
        }
        _ => None,
    };
    Ok((found, next))
}

/// Opaque to clients: the position in the sort order, with microseconds as Postgres stores them.
fn cursor((created_at, id): ListPosition) -> String {
    format!("{}.{}", created_at.timestamp_micros(), id.simple())
}

fn parse_cursor(cursor: &str) -> Result<ListPosition, Error> {
    let parse = || {
        let (micros, id) = cursor.split_once('.')?;
        // Unsigned: Postgres cannot represent every instant before 1970.
        let micros = i64::try_from(micros.parse::<u64>().ok()?).ok()?;
        let time = DateTime::from_timestamp_micros(micros)?;
        Some((time, id.parse().ok()?))
    };
    parse().ok_or(Error::Query("after must be the `next` of an earlier page"))
}
