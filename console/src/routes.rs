//! The table of routes.

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use serde::Deserialize;
use serde_json::{Value, json};
use timeline::OrderTimeline;
use uuid::Uuid;

use crate::app::App;
use crate::problem::Problem;
use crate::protection::protect;
use crate::{actions, assets, catalog, order_timeline, queries, stream};

/// Largest body of an action.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// Orders that a search returns.
const FOUND_MAX: i64 = 50;
/// Longest text to search for: the longest idempotency key.
const QUERY_LEN_MAX: usize = 255;

pub(crate) fn table(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(assets::index))
        .route("/assets/{name}", get(assets::asset))
        .route("/api/state", get(stream::state))
        .route("/api/stream", get(stream::stream))
        .route("/api/catalog", get(catalog::read))
        .route("/api/orders", get(search).post(actions::place::handle))
        .route("/api/orders/{id}", get(one_order))
        .route("/api/follow", post(actions::follow))
        .route("/api/processes/{name}/{action}", post(actions::process))
        .route(
            "/api/crash-points",
            post(actions::crash_points::arm).delete(actions::crash_points::disarm),
        )
        .route(
            "/api/provider-faults",
            post(actions::provider_faults::arm).delete(actions::provider_faults::clear),
        )
        .route("/api/network", post(actions::network))
        .route(
            "/api/scenario/kill-mid-charge",
            post(actions::kill_mid_charge::handle),
        )
        .route("/api/reset", post(actions::reset::handle))
        .fallback(async || Problem::not_found("The console has no such route. Open its page at /."))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), protect))
        .with_state(app)
}

#[derive(Deserialize)]
struct Search {
    #[serde(default)]
    query: String,
}

async fn search(
    State(app): State<Arc<App>>,
    Query(search): Query<Search>,
) -> Result<Json<Value>, Problem> {
    let text = search.query.trim();
    if text.len() > QUERY_LEN_MAX {
        return Err(Problem::bad_request(format!(
            "The search text must have at most {QUERY_LEN_MAX} bytes."
        )));
    }
    let databases = &app.pools.databases;
    let rows = match text {
        "" => queries::newest(&databases.order, FOUND_MAX).await?,
        text => queries::search(&databases.order, text, FOUND_MAX).await?,
    };
    let followed: Vec<Uuid> = app.hub.memory().followed.iter().copied().collect();
    let lines = queries::lines(&databases.psp, &rows, &followed).await?;
    Ok(Json(json!({ "orders": lines })))
}

async fn one_order(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<OrderTimeline>, Problem> {
    let id =
        Uuid::parse_str(&id).map_err(|_| Problem::bad_request("The order id must be a UUID."))?;
    let timeline = order_timeline::read(&app, id).await;
    let timeline = timeline.ok_or_else(|| Problem::not_found("No service knows this order."))?;
    Ok(Json(timeline))
}
