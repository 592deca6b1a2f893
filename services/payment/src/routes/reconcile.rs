//! `POST /admin/reconciliations?all=true`: reconciles now and returns the report. Repeating it is
//! harmless: every step is idempotent.

use anyhow::anyhow;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use operators::Operator;
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
    operator: Operator,
    scope: Result<Query<Scope>, QueryRejection>,
) -> Result<Json<Report>, Error> {
    let Query(scope) = scope.map_err(|_| Error::Query("Use only the parameter all=true."))?;
    let (all, context) = (scope.all, telemetry::Context::current());
    let trigger = Trigger::Operator { all, operator };
    let reconcile = async move { services.reconciler.reconcile(&trigger).await };
    // In a separate task: the reconciliation continues if the client disconnects. The task has the
    // request's context, so that the audit row has its correlation id.
    let task = tokio::spawn(context.scope(reconcile));
    match task.await {
        Ok(Ok(report)) => Ok(Json(report)),
        Ok(Err(reconciler::Error::Busy)) => Err(Error::Reconciling),
        Ok(Err(reconciler::Error::Failed(error))) => Err(Error::Reconciliation(error)),
        Err(error) => Err(Error::Reconciliation(anyhow!(error))),
    }
}
