//! `GET /admin/faults`: what is switched on, and how often each fault has struck.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::faults::Armed;
use crate::provider::Provider;

#[derive(Serialize)]
pub(super) struct List {
    data: Vec<Armed>,
}

pub(super) async fn handle(State(provider): State<Arc<Provider>>) -> Json<List> {
    Json(List {
        data: provider.faults.list(),
    })
}
