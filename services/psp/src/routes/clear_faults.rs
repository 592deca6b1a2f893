//! `DELETE /admin/faults[/{id}]`: disarms faults. A fault that was already applied stays applied, but
//! clearing all of them also ends the delays and slow charges that are under way.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use operators::{Operator, audit};
use serde_json::json;

use crate::Error;
use crate::provider::Provider;

pub(super) async fn all(
    State(provider): State<Arc<Provider>>,
    operator: Operator,
) -> Result<StatusCode, Error> {
    let detail = json!({ "faults": provider.faults.all().len() });
    audit::record_first(&provider.pool, &operator, "faults.clear", "all", &detail).await?;
    provider.faults.clear();
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn one(
    State(provider): State<Arc<Provider>>,
    Path(id): Path<String>,
    operator: Operator,
) -> Result<StatusCode, Error> {
    let id: u64 = id.parse().map_err(|_| Error::NotFound)?;
    let armed = provider.faults.all();
    let fault = armed.iter().find(|it| it.id == id).ok_or(Error::NotFound)?;
    let (subject, detail) = (id.to_string(), json!(fault));
    audit::record_first(&provider.pool, &operator, "faults.clear", &subject, &detail).await?;
    if !provider.faults.remove(id) {
        return Err(Error::NotFound);
    }
    Ok(StatusCode::NO_CONTENT)
}
