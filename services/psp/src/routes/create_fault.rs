//! `POST /admin/faults`: arms a fault, after its audit row is committed.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use operators::{Operator, audit};
use serde_json::json;

use super::extract::Body;
use crate::Error;
use crate::domain::fault::Fault;
use crate::domain::request;
use crate::faults::ArmedFault;
use crate::provider::Provider;

pub(super) async fn handle(
    State(provider): State<Arc<Provider>>,
    operator: Operator,
    Body(body): Body,
) -> Result<(StatusCode, Json<ArmedFault>), Error> {
    let fault: Fault = request::read(&body)?;
    fault.check()?;
    let subject = fault.reference.as_deref().unwrap_or("all");
    let detail = json!(fault);
    audit::record_first(&provider.pool, &operator, "faults.arm", subject, &detail).await?;
    let armed = provider.faults.arm(fault).ok_or(Error::TooManyFaults)?;
    tracing::info!(id = armed.id, fault = ?armed.fault, "fault armed");
    Ok((StatusCode::CREATED, Json(armed)))
}
