//! `DELETE /admin/faults[/{id}]`: disarms faults. Faults that were already applied stay applied.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;

use crate::Error;
use crate::provider::Provider;

pub(super) async fn all(State(provider): State<Arc<Provider>>) -> StatusCode {
    provider.faults.clear();
    StatusCode::NO_CONTENT
}

pub(super) async fn one(
    State(provider): State<Arc<Provider>>,
    Path(id): Path<String>,
) -> Result<StatusCode, Error> {
    let id = id.parse().map_err(|_| Error::NotFound)?;
    if !provider.faults.remove(id) {
        return Err(Error::NotFound);
    }
    Ok(StatusCode::NO_CONTENT)
}
