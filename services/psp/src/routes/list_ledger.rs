//! `GET /v1/ledger?after=&limit=`: all charges, oldest first, page by page, each with its refunds.
//!
//! Ids are assigned just before the commit. So near the end of the ledger a new row may appear before
//! one that is already listed. A client that continues from the newest row must go back by one
//! statement time-out, or it may miss such a row.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Error;
use crate::domain::charge::Charge;
use crate::domain::refund::Refund;
use crate::provider::Provider;
use crate::store::{charges, refunds};

/// Largest page; a larger limit is reduced to it.
const PAGE_ROWS_MAX: u32 = 1_000;
const PAGE_ROWS_DEFAULT: u32 = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cursor {
    after: Option<Uuid>,
    limit: Option<u32>,
}

#[derive(Serialize)]
pub(super) struct Page {
    data: Vec<LedgerEntry>,
    /// The next `after`; absent on the last page.
    next: Option<Uuid>,
}

#[derive(Serialize)]
struct LedgerEntry {
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

pub(super) async fn handle(
    State(provider): State<Arc<Provider>>,
    Query(cursor): Query<Cursor>,
) -> Result<Json<Page>, Error> {
    let limit = cursor
        .limit
        .unwrap_or(PAGE_ROWS_DEFAULT)
        .clamp(1, PAGE_ROWS_MAX);
    let mut connection = provider.pool.acquire().await?;
    // One row more than requested shows whether a next page exists.
    let after = cursor.after.unwrap_or(Uuid::nil());
    let mut charges = charges::page(&mut connection, after, i64::from(limit) + 1).await?;
    let has_more = charges.len() > limit as usize;
    charges.truncate(limit as usize);
    let ids: Vec<Uuid> = charges.iter().map(|charge| charge.id).collect();
    let refunds = refunds::of_charges(&mut connection, &ids).await?;
    Ok(Json(Page {
        data: entries(charges, refunds),
        next: ids.last().copied().filter(|_| has_more),
    }))
}

fn entries(charges: Vec<Charge>, refunds: Vec<Refund>) -> Vec<LedgerEntry> {
    let mut by_charge: HashMap<Uuid, Vec<RefundView>> = HashMap::new();
    for refund in refunds {
        let of_charge = by_charge.entry(refund.charge_id).or_default();
        of_charge.push(refund.into());
    }
    charges
        .into_iter()
        .map(|charge| LedgerEntry {
            refunds: by_charge.remove(&charge.id).unwrap_or_default(),
            charge,
        })
        .collect()
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
