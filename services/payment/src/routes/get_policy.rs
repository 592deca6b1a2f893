//! `GET /idempotency-policy`: what clients may rely on, for machines to read.

use axum::Json;
use axum::extract::State;
use idempotency::Policy;

use crate::outcome::DIRECT_ROUTE;
use crate::routes::Services;

/// What clients may rely on when they send an `Idempotency-Key`.
#[utoipa::path(
    get,
    path = "/idempotency-policy",
    operation_id = "get_idempotency_policy",
    responses((status = 200, description = "The policy", body = Object))
)]
pub(super) async fn handle(State(services): State<Services>) -> Json<Policy> {
    Json(Policy::new(
        services.desk.key_window_seconds,
        &[DIRECT_ROUTE],
    ))
}
