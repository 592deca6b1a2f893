//! A charge with its refunds, as lookups and the ledger show it.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::charge::Charge;
use crate::domain::cutoff::Cutoff;
use crate::domain::refund::Refund;
use crate::store::refunds;

#[derive(Serialize)]
pub(super) struct ChargeView {
    #[serde(flatten)]
    charge: Charge,
    refunds: Vec<RefundView>,
}

/// A refund without the fields that its charge already shows.
#[derive(Serialize)]
struct RefundView {
    id: Uuid,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure_code: Option<String>,
    idempotency_key: String,
    amount: i64,
    created_at: DateTime<Utc>,
}

/// Adds the refunds of each charge, oldest first. Leaves out the refunds that lookups do not show yet.
pub(super) async fn with_refunds(
    connection: &mut PgConnection,
    charges: Vec<Charge>,
    cutoff: Cutoff,
) -> sqlx::Result<Vec<ChargeView>> {
    if charges.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = charges.iter().map(|charge| charge.id).collect();
    let mut by_charge: HashMap<Uuid, Vec<RefundView>> = HashMap::new();
    let mut refunds = refunds::of_charges(connection, &ids).await?;
    refunds.retain(|refund| cutoff.shows(refund.created_at));
    for refund in refunds {
        let of_charge = by_charge.entry(refund.charge_id).or_default();
        of_charge.push(refund.into());
    }
    let view = |charge: Charge| ChargeView {
        refunds: by_charge.remove(&charge.id).unwrap_or_default(),
        charge,
    };
    Ok(charges.into_iter().map(view).collect())
}

impl From<Refund> for RefundView {
    fn from(refund: Refund) -> Self {
        Self {
            id: refund.id,
            status: refund.status,
            failure_code: refund.failure_code,
            idempotency_key: refund.idempotency_key,
            amount: refund.amount,
            created_at: refund.created_at,
        }
    }
}
