//! Operator routes of the outbox.

use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use chrono::{DateTime, Utc};
use operators::{Operator, audit};
use serde::{Deserialize, Serialize};
use serde_json::json;
use service_kit::Problem;
use service_kit::body::JsonBody;
use service_kit::database::{self, STORE_TIMEOUT};
use service_kit::request_error::operator_problem;
use sqlx::{Connection as _, PgConnection, PgPool};
use uuid::Uuid;

use crate::Wake;
use crate::held::{self, HeldOrder};
use crate::republish::republish_for;

/// Longest time for marking all rows. Shorter than the timeout of the operator's command, so that
/// the command gets the error response.
const REPUBLISH_TIMEOUT: Duration = Duration::from_secs(300);

/// Held orders per page.
const HELD_PAGE_MAX: i64 = 200;

/// Operator routes, for the operator listener: `POST /admin/outbox/republish`,
/// `GET /admin/outbox/held` and `POST /admin/outbox/held/{order_id}/retry`.
pub fn routes(pool: PgPool, wake: Wake) -> Router {
    Router::new()
        .route("/admin/outbox/republish", post(republish_since))
        .route("/admin/outbox/held", get(list_held))
        .route("/admin/outbox/held/{order_id}/retry", post(retry_held))
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

async fn republish_since(
    State((pool, wake)): State<(PgPool, Wake)>,
    operator: Operator,
    JsonBody(RepublishRequest { since }): JsonBody<RepublishRequest>,
) -> Result<Json<RepublishResponse>, Problem> {
    let republished = republish_for(&pool, since, &operator);
    let republished = database::with_timeout(REPUBLISH_TIMEOUT, republished).await;
    let republished = republished.map_err(operator_problem)?;
    wake.wake();
    Ok(Json(RepublishResponse { republished }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    /// The last order of the page before.
    after: Option<Uuid>,
}

async fn list_held(
    State((pool, _)): State<(PgPool, Wake)>,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<Vec<HeldOrder>>, Problem> {
    let Query(page) = page.map_err(|error| {
        Problem::new(StatusCode::BAD_REQUEST, "invalid_query", error.body_text())
    })?;
    let after = page.after.unwrap_or_default();
    let held = with_store(&pool, async |connection| {
        held::page(connection, after, HELD_PAGE_MAX).await
    });
    Ok(Json(held.await?))
}

async fn retry_held(
    State((pool, wake)): State<(PgPool, Wake)>,
    Path(order_id): Path<Uuid>,
    operator: Operator,
) -> Result<StatusCode, Problem> {
    let found = with_store(&pool, async |connection| {
        let mut tx = connection.begin().await?;
        let found = held::retry_now(&mut tx, order_id).await?;
        if found {
            let subject = order_id.to_string();
            audit::record(&mut tx, &operator, "outbox.retry", &subject, &json!({})).await?;
        }
        tx.commit().await?;
        Ok(found)
    });
    if !found.await? {
        let detail = "No event of this order is held.";
        return Err(Problem::new(
            StatusCode::NOT_FOUND,
            "order_not_held",
            detail,
        ));
    }
    wake.wake();
    Ok(StatusCode::NO_CONTENT)
}

/// Runs one short piece of work; a store that cannot be reached answers 503.
async fn with_store<T>(
    pool: &PgPool,
    work: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>,
) -> Result<T, Problem> {
    let done = database::query_with_timeout(STORE_TIMEOUT, async {
        work(&mut *database::acquire(pool).await?).await
    });
    done.await.map_err(operator_problem)
}
