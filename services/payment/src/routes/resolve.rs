//! `POST /admin/payments/{order_id}/attempts/{attempt}/resolution`,
//! `POST /admin/refunds/{charge_id}/resolution` and `POST /admin/unexplained-charges/{charge_id}`: an
//! operator settles what the service cannot know.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use operators::Operator;
use serde::Deserialize;
use service_kit::body::JsonBody;
use service_kit::database::{self, STORE_TIMEOUT};
use uuid::Uuid;

use crate::charger::Queue;
use crate::resolution::{
    self, AttemptOutcome, ChargeDecision, RefundOutcome, Resolved, decide_charge, resolve_attempt,
    resolve_refund,
};
use crate::routes::{Error, Services};
use crate::store::unexplained::{self, UnexplainedCharge};

/// Maximum number of unexplained charges in one list.
const LISTED_MAX: i64 = 500;

pub(super) async fn attempt(
    State(services): State<Services>,
    operator: Operator,
    path: Result<Path<(Uuid, i32)>, PathRejection>,
    JsonBody(outcome): JsonBody<AttemptOutcome>,
) -> Result<Json<Resolved>, Error> {
    let Path(attempt) = path.map_err(|_| Error::NotFound)?;
    let resolve = async {
        let mut connection = database::acquire(&services.pool).await?;
        let resolved = resolve_attempt(&mut connection, &operator, attempt, &outcome).await;
        Ok::<_, Error>(resolved?)
    };
    let resolved = database::with_timeout(STORE_TIMEOUT, resolve).await?;
    services.reconciler.wake.wake();
    services.direct_charges.waiting.settled(attempt.0);
    Ok(answer(&operator, resolved))
}

pub(super) async fn refund(
    State(services): State<Services>,
    operator: Operator,
    Path(charge_id): Path<String>,
    JsonBody(outcome): JsonBody<RefundOutcome>,
) -> Result<Json<Resolved>, Error> {
    let resolve = async {
        let mut connection = database::acquire(&services.pool).await?;
        let resolved = resolve_refund(&mut connection, &operator, &charge_id, &outcome).await;
        Ok::<_, Error>(resolved?)
    };
    let resolved = database::with_timeout(STORE_TIMEOUT, resolve).await?;
    services.reconciler.wake.wake();
    Ok(answer(&operator, resolved))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Decision {
    decision: ChargeDecision,
    /// Only show what would happen.
    #[serde(default)]
    dry_run: bool,
}

pub(super) async fn charge(
    State(services): State<Services>,
    operator: Operator,
    Path(charge_id): Path<String>,
    JsonBody(Decision { decision, dry_run }): JsonBody<Decision>,
) -> Result<Json<Resolved>, Error> {
    let decide = async {
        let mut connection = database::acquire(&services.pool).await?;
        let decided =
            decide_charge(&mut connection, &operator, &charge_id, decision, dry_run).await;
        Ok::<_, Error>(decided?)
    };
    let resolved = database::with_timeout(STORE_TIMEOUT, decide).await?;
    services.reconciler.queues.of(Queue::Refunds).wake("");
    Ok(answer(&operator, resolved))
}

/// A repeat and a dry run change nothing.
fn answer(operator: &Operator, resolved: Resolved) -> Json<Resolved> {
    if !resolved.changed {
        operator.nothing_changed();
    }
    Json(resolved)
}

pub(super) async fn list_charges(
    State(services): State<Services>,
) -> Result<Json<Vec<UnexplainedCharge>>, Error> {
    let list = async {
        let mut connection = database::acquire(&services.pool).await?;
        Ok::<_, Error>(unexplained::open(&mut connection, LISTED_MAX).await?)
    };
    Ok(Json(database::with_timeout(STORE_TIMEOUT, list).await?))
}

impl From<resolution::Error> for Error {
    fn from(error: resolution::Error) -> Self {
        match error {
            resolution::Error::NotFound => Self::NotFound,
            resolution::Error::Settled(status) => Self::AlreadySettled(status),
            resolution::Error::Failed(error) => Self::Resolution(error),
        }
    }
}
