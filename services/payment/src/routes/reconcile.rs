//! `POST /admin/reconciliations?all=true`: reconciles now and returns the report. Repeating it is
//! harmless: every step is idempotent.

use anyhow::anyhow;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Deserialize;

use crate::reconciler::{self, Trigger};
use crate::routes::{Error, Services};
use crate::store::reconciliations::Report;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scope {
    /// All charges, regardless of age.
    #[serde(default)]
    all: bool,
}

pub(super) async fn handle(
    State(services): State<Services>,
    scope: Result<Query<Scope>, QueryRejection>,
) -> Result<Json<Report>, Error> {
    let Query(scope) = scope.map_err(|_| Error::Query("Use only the parameter all=true."))?;
    // In a separate task: the reconciliation continues if the client disconnects.
    let task = tokio::spawn(async move {
        let trigger = Trigger::Operator { all: scope.all };
        services.reconciler.reconcile(trigger).await
    });
    match task.await {
        Ok(Ok(report)) => Ok(Json(report)),
        Ok(Err(reconciler::Error::Busy)) => Err(Error::Reconciling),
        Ok(Err(reconciler::Error::Failed(error))) => Err(Error::Reconciliation(error)),
        Err(error) => Err(Error::Reconciliation(anyhow!(error))),
    }
}
