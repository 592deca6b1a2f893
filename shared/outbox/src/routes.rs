//! What an operator can ask of the outbox, over HTTP.

use std::time::Duration;

use anyhow::anyhow;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use service_kit::Problem;
use sqlx::PgPool;

use crate::{Wake, republish};

/// Longest time that marking rows may take, however many there are: below what the lab waits.
const REPUBLISH_TIMEOUT: Duration = Duration::from_secs(300);
/// How soon to ask again when the database is away.
const RETRY_AFTER: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    since: DateTime<Utc>,
}

#[derive(Serialize)]
struct Answer {
    republished: u64,
}

/// `POST /admin/outbox/republish`, to be merged into a service's own routes.
pub fn routes(pool: PgPool, wake: Wake) -> Router {
    Router::new()
        .route("/admin/outbox/republish", post(handle))
        .with_state((pool, wake))
}

async fn handle(
    State((pool, wake)): State<(PgPool, Wake)>,
    request: Result<Json<Request>, JsonRejection>,
) -> Result<Json<Answer>, Problem> {
    let Json(Request { since }) = request.map_err(|error| {
        Problem::new(StatusCode::BAD_REQUEST, "invalid_body", error.body_text())
    })?;
    let republished = tokio::time::timeout(REPUBLISH_TIMEOUT, republish(&pool, since)).await;
    let republished = republished.unwrap_or_else(|_| Err(anyhow!("it took too long")));
    let republished = republished.map_err(|error| {
        let error = format!("{error:#}");
        tracing::warn!(error, "republishing failed, nothing was changed");
        Problem::unavailable(RETRY_AFTER)
    })?;
    wake.wake();
    Ok(Json(Answer { republished }))
}
