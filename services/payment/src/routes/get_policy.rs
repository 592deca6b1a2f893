//! `GET /idempotency-policy`: the rules for `Idempotency-Key`, machine-readable.

use axum::Json;
use axum::extract::State;
use idempotency::Policy;

use crate::domain::direct::DIRECT_ROUTE;
use crate::routes::Services;

/// The rules for `Idempotency-Key`: how long a key is honoured, and on which routes.
#[utoipa::path(
    get,
    path = "/idempotency-policy",
    operation_id = "get_idempotency_policy",
    responses((status = 200, description = "The policy", body = Object))
)]
pub(super) async fn handle(State(services): State<Services>) -> Json<Policy> {
    Json(Policy::new(
        services.direct_charges.key_window_seconds,
        &[DIRECT_ROUTE],
    ))
}
