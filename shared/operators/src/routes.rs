//! The operator routes that every service has, and the layers around all operator routes.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router, middleware};
use serde::{Deserialize, Serialize};
use service_kit::database::{self, STORE_TIMEOUT};
use service_kit::request_error::operator_problem;
use service_kit::{Problem, http};
use sqlx::PgPool;
use telemetry::metric;

use crate::Tokens;
use crate::audit::{self, Entry};
use crate::authentication::authenticate;

/// Largest page; a larger limit is reduced to it.
const PAGE_ROWS_MAX: u32 = 1_000;
const PAGE_ROWS_DEFAULT: u32 = 100;

/// The whole router of the operator listener: these routes, `GET /admin/audit`, crash points where they
/// are built in, authentication, and the layers of every service.
pub fn finish(routes: Router, tokens: Tokens, pool: PgPool) -> Router {
    // Exported from the start: an alert cannot see the first increase of a new series.
    metrics::counter!(metric::OPERATOR_REQUESTS_REJECTED).increment(0);
    metrics::counter!(metric::OPERATOR_CHANGES_UNAUDITED).increment(0);
    let common = Router::new().route("/admin/audit", get(list));
    #[cfg(feature = "crash-points")]
    let common = common.merge(crate::crash_points::table());
    let routes = routes
        .merge(common.with_state(pool))
        .fallback(async || not_found())
        .method_not_allowed_fallback(async || http::method_not_allowed())
        .layer(middleware::from_fn_with_state(tokens, authenticate));
    http::layered(routes)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cursor {
    before: Option<i64>,
    limit: Option<u32>,
}

#[derive(Serialize)]
struct Page {
    data: Vec<Entry>,
    /// Value of `before` for the next page; absent on the last page.
    next: Option<i64>,
}

async fn list(
    State(pool): State<PgPool>,
    cursor: Result<Query<Cursor>, QueryRejection>,
) -> Result<Json<Page>, Problem> {
    let Query(cursor) = cursor.map_err(|error| {
        Problem::new(StatusCode::BAD_REQUEST, "invalid_query", error.body_text())
    })?;
    let limit = cursor.limit.unwrap_or(PAGE_ROWS_DEFAULT);
    let limit = limit.clamp(1, PAGE_ROWS_MAX);
    let before = cursor.before.unwrap_or(i64::MAX);
    // One extra row shows whether there is a next page.
    let rows_max = i64::from(limit) + 1;
    let page = database::query_with_timeout(STORE_TIMEOUT, async {
        let mut connection = database::acquire(&pool).await?;
        audit::page(&mut connection, before, rows_max).await
    });
    let mut data = page.await.map_err(operator_problem)?;
    let has_more = data.len() > limit as usize;
    data.truncate(limit as usize);
    let next = data.last().filter(|_| has_more).map(|row| row.id);
    Ok(Json(Page { data, next }))
}

fn not_found() -> Problem {
    let detail = "No operator route has this URL. Customers use another port.";
    Problem::new(StatusCode::NOT_FOUND, "not_found", detail)
}
