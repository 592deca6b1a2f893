//! What an operator decides about money that the service cannot settle automatically: an attempt, a refund, an
//! unexplained charge.
//!
//! A decision goes through the same transitions as an answer of the provider, and commits with its events
//! and its audit row. Repeating it changes nothing. The reconciler later confirms it, or reports that the
//! provider's books contradict it.

use anyhow::Context as _;
use operators::{Operator, audit};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::{Connection as _, PgConnection};
use thiserror::Error;
use uuid::Uuid;

use crate::domain::books::{Charge, ChargeStatus};
use crate::domain::{AttemptStatus, ProviderAnswer, RefundStatus, UnexplainedStatus};
use crate::follow_ups::FollowUps;
use crate::store::refunds::{self, NewRefund};
use crate::store::{resolutions, unexplained};

/// The code of an attempt or refund that an operator closed.
const BY_OPERATOR: &str = "closed_by_operator";

/// What an operator knows about an attempt.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case", deny_unknown_fields)]
pub enum AttemptOutcome {
    Captured { charge_id: String },
    NotCharged,
}

/// What an operator knows about a refund.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case", deny_unknown_fields)]
pub enum RefundOutcome {
    Refunded { refund_id: String },
    NotRefunded,
}

/// What happens to a charge that no attempt explains.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ChargeDecision {
    Refund,
    /// The money stays.
    Accept,
}

/// The result of a decision.
#[derive(Clone, Debug, Serialize)]
pub struct Resolved {
    pub status: String,
    /// Whether this call changed anything; otherwise an earlier one made the same decision.
    pub changed: bool,
}

#[derive(Debug, Error)]
pub enum Error {
    #[error("there is no such attempt, refund or charge")]
    NotFound,
    #[error("it is already settled as {0}")]
    Settled(String),
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

/// Settles an open attempt, even if a charger holds its lease: the charger's answer is then stale.
pub async fn resolve_attempt(
    connection: &mut PgConnection,
    operator: &Operator,
    (order_id, attempt): (Uuid, i32),
    outcome: &AttemptOutcome,
) -> Result<Resolved, Error> {
    let mut tx = connection.begin().await.context("starting")?;
    let row = resolutions::lock_attempt(&mut tx, order_id, attempt)
        .await
        .context("locking the attempt")?
        .ok_or(Error::NotFound)?;
    let (answer, status) = match outcome {
        AttemptOutcome::Captured { charge_id } => {
            let charge_id = charge_id.clone();
            (
                ProviderAnswer::Captured { charge_id },
                AttemptStatus::Captured,
            )
        }
        AttemptOutcome::NotCharged => {
            let code = BY_OPERATOR.to_owned();
            (ProviderAnswer::Failed { code }, AttemptStatus::Failed)
        }
    };
    if !row.status.is_open() {
        let same_charge = match outcome {
            AttemptOutcome::Captured { charge_id } => row.charge_id.as_ref() == Some(charge_id),
            AttemptOutcome::NotCharged => true,
        };
        return repeated(row.status.as_str(), row.status == status && same_charge);
    }
    let settled = resolutions::settle_attempt(&mut tx, order_id, attempt, &answer, status)
        .await
        .context("settling the attempt")?;
    let mut follow_ups = FollowUps::default();
    follow_ups.add_settled(&settled, &answer, None)?;
    follow_ups.write(&mut tx).await?;
    let subject = format!("{order_id}/{attempt}");
    audit::record(
        &mut tx,
        operator,
        "attempts.resolve",
        &subject,
        &json!(outcome),
    )
    .await
    .context("recording the change")?;
    tx.commit().await.context("committing")?;
    Ok(changed(status.as_str()))
}

/// Settles a refund that is open or has failed.
pub async fn resolve_refund(
    connection: &mut PgConnection,
    operator: &Operator,
    charge_id: &str,
    outcome: &RefundOutcome,
) -> Result<Resolved, Error> {
    let mut tx = connection.begin().await.context("starting")?;
    let row = resolutions::lock_refund(&mut tx, charge_id)
        .await
        .context("locking the refund")?
        .ok_or(Error::NotFound)?;
    let (status, refund_id) = match outcome {
        RefundOutcome::Refunded { refund_id } => (RefundStatus::Refunded, Some(&**refund_id)),
        RefundOutcome::NotRefunded => (RefundStatus::Failed, None),
    };
    let is_same = row.status == status && row.refund_id.as_deref() == refund_id;
    if row.status == RefundStatus::Refunded || is_same {
        return repeated(row.status.as_str(), is_same);
    }
    let code = refund_id.is_none().then_some(BY_OPERATOR);
    let settled = resolutions::settle_refund(&mut tx, charge_id, status, refund_id, code)
        .await
        .context("settling the refund")?;
    let mut follow_ups = FollowUps::default();
    follow_ups.add_refunded(settled, None)?;
    follow_ups.write(&mut tx).await?;
    audit::record(
        &mut tx,
        operator,
        "refunds.resolve",
        charge_id,
        &json!(outcome),
    )
    .await
    .context("recording the change")?;
    tx.commit().await.context("committing")?;
    Ok(changed(status.as_str()))
}

/// Decides about an unexplained charge. A dry run only shows what would happen.
pub async fn decide_charge(
    connection: &mut PgConnection,
    operator: &Operator,
    charge_id: &str,
    decision: ChargeDecision,
    dry_run: bool,
) -> Result<Resolved, Error> {
    let mut tx = connection.begin().await.context("starting")?;
    let row = unexplained::lock(&mut tx, charge_id)
        .await
        .context("locking the charge")?
        .ok_or(Error::NotFound)?;
    let status = match decision {
        ChargeDecision::Refund => UnexplainedStatus::Refunded,
        ChargeDecision::Accept => UnexplainedStatus::Accepted,
    };
    if row.status != UnexplainedStatus::Open {
        return repeated(row.status.as_str(), row.status == status);
    }
    if dry_run {
        return Ok(Resolved {
            status: format!("would be {}", status.as_str()),
            changed: false,
        });
    }
    let (name, reason) = (operator.name(), operator.reason());
    unexplained::settle(&mut tx, charge_id, status, name, reason)
        .await
        .context("settling the charge")?;
    if decision == ChargeDecision::Refund {
        let charge = Charge {
            id: row.charge_id,
            status: ChargeStatus::Captured,
            reference: row.reference,
            amount: row.amount,
            currency: row.currency,
            idempotency_key: row.idempotency_key,
            created_at: row.charged_at,
            refunds: Vec::new(),
        };
        let refund = NewRefund::of_orphan(&charge, "operator");
        refunds::open(&mut tx, &[refund])
            .await
            .context("opening the refund")?;
    }
    let detail = json!({ "decision": decision });
    audit::record(
        &mut tx,
        operator,
        "unexplained_charges.decide",
        charge_id,
        &detail,
    )
    .await
    .context("recording the change")?;
    tx.commit().await.context("committing")?;
    Ok(changed(status.as_str()))
}

fn changed(status: &str) -> Resolved {
    Resolved {
        status: status.to_owned(),
        changed: true,
    }
}

fn repeated(status: &str, is_same: bool) -> Result<Resolved, Error> {
    if !is_same {
        return Err(Error::Settled(status.to_owned()));
    }
    Ok(Resolved {
        status: status.to_owned(),
        changed: false,
    })
}
