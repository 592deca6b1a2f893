//! `GET /admin/faults`: the armed faults, and how many times each was applied.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::faults::ArmedFault;
use crate::provider::Provider;

#[derive(Serialize)]
pub(super) struct List {
    data: Vec<ArmedFault>,
}

pub(super) async fn handle(State(provider): State<Arc<Provider>>) -> Json<List> {
    Json(List {
        data: provider.faults.all(),
    })
}
