//! Operator routes of the outbox.

use std::time::Duration;

use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use service_kit::{Problem, database};
use sqlx::PgPool;

use crate::{Wake, republish};

/// Longest time for marking all rows. Shorter than the time-out of the operator's command, so that
/// the command gets the error response.
const REPUBLISH_TIMEOUT: Duration = Duration::from_secs(300);
/// When to retry if the database is unreachable.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// `POST /admin/outbox/republish`, to be merged into a service's routes.
pub fn routes(pool: PgPool, wake: Wake) -> Router {
    Router::new()
        .route("/admin/outbox/republish", post(handle))
        .with_state((pool, wake))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RepublishRequest {
    since: DateTime<Utc>,
}

#[derive(Serialize)]
struct RepublishResponse {
    republished: u64,
}

async fn handle(
    State((pool, wake)): State<(PgPool, Wake)>,
    request: Result<Json<RepublishRequest>, JsonRejection>,
) -> Result<Json<RepublishResponse>, Problem> {
    let Json(RepublishRequest { since }) = request.map_err(|error| {
        Problem::new(StatusCode::BAD_REQUEST, "invalid_body", error.body_text())
    })?;
    let republished = database::with_timeout(REPUBLISH_TIMEOUT, republish(&pool, since)).await;
    let republished = republished.map_err(|error| {
        let error = format!("{error:#}");
        tracing::warn!(error, "republication failed, nothing changed");
        Problem::unavailable(RETRY_AFTER)
    })?;
    wake.wake();
    Ok(Json(RepublishResponse { republished }))
}
