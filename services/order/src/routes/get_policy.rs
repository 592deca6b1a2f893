//! `GET /idempotency-policy`: what clients may rely on, for machines to read.

use axum::Json;
use axum::extract::State;
use idempotency::Policy;

use crate::routes::{KEYED_ROUTES, Services};

pub(super) async fn handle(State(services): State<Services>) -> Json<Policy> {
    Json(Policy::new(services.key_window_seconds, KEYED_ROUTES))
}
