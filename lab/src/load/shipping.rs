//! After the drive: waits until every accepted order has shipped, then counts its charges.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context;
use chrono::{DateTime, Utc};
use hdrhistogram::Histogram;
use serde::Serialize;
use sqlx::PgPool;
use tokio::time::Instant;
use uuid::Uuid;

use super::tally::{Accepted, histogram, record};
use endpoints::provider;

/// Orders per query.
const ORDERS_PER_QUERY_MAX: usize = 10_000;
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// If nothing ships for this long, the rest will not ship either.
const STALL_MAX: Duration = Duration::from_secs(60);

/// When the accepted orders shipped.
pub(super) struct ShippingResult {
    pub(super) shipped: u64,
    /// From the due time of the request to the transaction that made the order `shipped`.
    pub(super) to_shipped: Histogram<u64>,
    pub(super) first_due_unix_us: i64,
    pub(super) first_shipped_unix_us: i64,
    pub(super) last_shipped_unix_us: i64,
}

#[derive(Debug, Default, Clone, Serialize)]
/// How many charges the accepted orders have in the provider's books.
pub(super) struct LedgerCounts {
    pub(super) charged_once: u64,
    pub(super) not_charged: u64,
    pub(super) charged_more_than_once: u64,
    /// References with more than one charge in the whole ledger, accepted or not.
    pub(super) any_reference_charged_twice: u64,
}

/// Returns when all have shipped, or when nothing has shipped for [`STALL_MAX`].
pub(super) async fn wait_until_shipped(
    orders: &PgPool,
    accepted: &[Accepted],
) -> anyhow::Result<ShippingResult> {
    let mut due: HashMap<Uuid, i64> = accepted
        .iter()
        .map(|order| (order.id, order.due_unix_us))
        .collect();
    let mut result = ShippingResult {
        shipped: 0,
        to_shipped: histogram()?,
        first_due_unix_us: due.values().copied().min().unwrap_or_default(),
        first_shipped_unix_us: i64::MAX,
        last_shipped_unix_us: 0,
    };
    let mut progress_at = Instant::now();
    loop {
        let open: Vec<Uuid> = due.keys().copied().collect();
        let shipped_before = result.shipped;
        for batch in open.chunks(ORDERS_PER_QUERY_MAX) {
            for (id, shipped_at) in shipped_of(orders, batch).await? {
                if let Some(due_unix_us) = due.remove(&id) {
                    result.add(due_unix_us, shipped_at);
                }
            }
        }
        if result.shipped > shipped_before {
            progress_at = Instant::now();
        }
        if due.is_empty() || progress_at.elapsed() >= STALL_MAX {
            return Ok(result);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Counts the charges of every accepted order in the provider's own database.
pub(super) async fn count_charges(
    psp: &PgPool,
    accepted: &[Accepted],
) -> anyhow::Result<LedgerCounts> {
    let ids: Vec<Uuid> = accepted.iter().map(|order| order.id).collect();
    let mut counts = LedgerCounts::default();
    for count in provider::charges_per_order(psp, &ids).await?.into_values() {
        match count {
            1 => counts.charged_once += 1,
            0 => counts.not_charged += 1,
            _ => counts.charged_more_than_once += 1,
        }
    }
    counts.any_reference_charged_twice =
        provider::references_charged_twice(psp).await?.len() as u64;
    Ok(counts)
}

impl ShippingResult {
    fn add(&mut self, due_unix_us: i64, shipped_at: DateTime<Utc>) {
        let shipped_unix_us = shipped_at.timestamp_micros();
        let took_us = u64::try_from(shipped_unix_us - due_unix_us).unwrap_or_default();
        self.shipped += 1;
        record(&mut self.to_shipped, Duration::from_micros(took_us));
        self.first_shipped_unix_us = self.first_shipped_unix_us.min(shipped_unix_us);
        self.last_shipped_unix_us = self.last_shipped_unix_us.max(shipped_unix_us);
    }

    pub(super) fn span_s(&self) -> f64 {
        (self.last_shipped_unix_us - self.first_due_unix_us).max(0) as f64 / 1e6
    }
}

/// `updated_at` is when the shipping transaction started, so it is a few milliseconds too early.
async fn shipped_of(orders: &PgPool, ids: &[Uuid]) -> anyhow::Result<Vec<(Uuid, DateTime<Utc>)>> {
    sqlx::query_as("select id, updated_at from orders where id = any($1) and status = $2")
        .bind(ids)
        .bind(endpoints::status::ORDER_SHIPPED)
        .fetch_all(orders)
        .await
        .context("reading which orders have shipped")
}
