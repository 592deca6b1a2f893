//! `POST /admin/faults`: switches a fault on.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use bytes::Bytes;

use crate::Error;
use crate::domain::fault::Fault;
use crate::faults::Armed;
use crate::provider::Provider;

pub(super) async fn handle(
    State(provider): State<Arc<Provider>>,
    body: Bytes,
) -> Result<(StatusCode, Json<Armed>), Error> {
    let fault: Fault =
        serde_json::from_slice(&body).map_err(|error| Error::Malformed(error.to_string()))?;
    fault.check()?;
    let armed = provider.faults.add(fault).ok_or(Error::BoardFull)?;
    tracing::info!(id = armed.id, fault = ?armed.fault, "a fault was switched on");
    Ok((StatusCode::CREATED, Json(armed)))
}
