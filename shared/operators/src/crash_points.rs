//! `/admin/crash-points`: lists, arms and disarms crash points of this process.

use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::json;
use service_kit::body::JsonBody;
use service_kit::request_error::operator_problem;
use service_kit::{Problem, crash};
use sqlx::PgPool;

use crate::{Operator, audit};

#[derive(Deserialize, Serialize)]
struct Arm {
    name: String,
    #[serde(default = "next_hit")]
    hits: u32,
    #[serde(default)]
    action: crash::Action,
}

fn next_hit() -> u32 {
    1
}

pub(crate) fn table() -> Router<PgPool> {
    Router::new().route("/admin/crash-points", get(list).post(arm).delete(disarm))
}

async fn list() -> impl IntoResponse {
    Json(crash::list())
}

async fn arm(
    State(pool): State<PgPool>,
    operator: Operator,
    JsonBody(request): JsonBody<Arm>,
) -> Result<impl IntoResponse, Problem> {
    let (name, detail) = (&request.name, json!(request));
    audit::record_first(&pool, &operator, "crash_points.arm", name, &detail)
        .await
        .map_err(operator_problem)?;
    crash::arm(&request.name, request.hits, request.action);
    Ok(Json(crash::list()))
}

async fn disarm(
    State(pool): State<PgPool>,
    operator: Operator,
) -> Result<impl IntoResponse, Problem> {
    let detail = json!({ "armed": crash::list() });
    audit::record_first(&pool, &operator, "crash_points.disarm", "all", &detail)
        .await
        .map_err(operator_problem)?;
    crash::disarm_all();
    Ok(Json(crash::list()))
}
