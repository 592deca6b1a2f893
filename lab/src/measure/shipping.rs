//! After the drive: waits until every accepted order has shipped and its receipt is sent, then counts
//! its charges.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context;
use chrono::{DateTime, Utc};
use hdrhistogram::Histogram;
use serde::Serialize;
use sqlx::PgPool;
use tokio::time::Instant;
use uuid::Uuid;

use crate::generator::tally::{Accepted, histogram, record};
use endpoints::provider;

/// Orders per query.
const ORDERS_PER_QUERY_MAX: usize = 10_000;
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(500);
/// The pause after a query, as a multiple of the time that the query took. A look at tens of thousands of open
/// orders must not slow down the system that it measures.
const PAUSE_PER_QUERY: u32 = 10;
/// If no further order gets there for this long, the rest will not either.
const STALL_MAX: Duration = Duration::from_secs(60);

/// When the accepted orders reached a point.
pub(crate) struct Reached {
    pub(crate) orders: u64,
    /// From the due time of the request.
    pub(crate) took: Histogram<u64>,
    pub(crate) first_due_unix_us: i64,
    pub(crate) first_unix_us: i64,
    pub(crate) last_unix_us: i64,
    pub(crate) times: Vec<Times>,
}

/// When one order was due, and when it reached the point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) due_unix_us: i64,
    pub(crate) reached_unix_us: i64,
}

/// The ids of the given orders that have reached the point, and when. The times are when the
/// transactions began, so they are a few milliseconds too early.
const SHIPPED: &str =
    "select id, updated_at from orders where id = any($1) and status = $2 /* lab */";
const RECEIPT_SENT: &str = "select order_id, sent_at from receipts
     where order_id = any($1) and status = $2 and mail_type = 'receipt' /* lab */";
/// Marks the statements of the lab itself, so that it does not count them as the system's.
pub(crate) const LAB_STATEMENT: &str = "/* lab */";

#[derive(Debug, Default, Clone, Serialize)]
/// How many charges the accepted orders have in the provider's books.
pub(crate) struct LedgerCounts {
    pub(crate) charged_once: u64,
    pub(crate) not_charged: u64,
    pub(crate) charged_more_than_once: u64,
    /// References with more than one charge in the whole ledger, accepted or not.
    pub(crate) any_reference_charged_twice: u64,
}

/// Returns when all have shipped, or when nothing has shipped for [`STALL_MAX`].
pub(crate) async fn wait_until_shipped(
    orders: &PgPool,
    accepted: &[Accepted],
) -> anyhow::Result<Reached> {
    let status = endpoints::status::ORDER_SHIPPED;
    let waited = wait_until_reached(orders, accepted, SHIPPED, status).await;
    waited.context("reading which orders have shipped")
}

/// Returns when all receipts are sent, or when none was sent for [`STALL_MAX`].
pub(crate) async fn wait_until_mailed(
    receipts: &PgPool,
    accepted: &[Accepted],
) -> anyhow::Result<Reached> {
    let status = endpoints::status::RECEIPT_SENT;
    let waited = wait_until_reached(receipts, accepted, RECEIPT_SENT, status).await;
    waited.context("reading which receipts are sent")
}

async fn wait_until_reached(
    database: &PgPool,
    accepted: &[Accepted],
    query: &'static str,
    status: &str,
) -> anyhow::Result<Reached> {
    let mut due: HashMap<Uuid, i64> = accepted
        .iter()
        .map(|order| (order.id, order.due_unix_us))
        .collect();
    let mut reached = Reached {
        orders: 0,
        took: histogram()?,
        first_due_unix_us: due.values().copied().min().unwrap_or_default(),
        first_unix_us: i64::MAX,
        last_unix_us: 0,
        times: Vec::with_capacity(accepted.len()),
    };
    let mut progress_at = Instant::now();
    loop {
        let open: Vec<Uuid> = due.keys().copied().collect();
        let before = reached.orders;
        let asked_at = Instant::now();
        for batch in open.chunks(ORDERS_PER_QUERY_MAX) {
            let found = sqlx::query_as(query).bind(batch).bind(status);
            for (id, at) in found.fetch_all(database).await? {
                if let Some(due_unix_us) = due.remove(&id) {
                    reached.add(due_unix_us, at);
                }
            }
        }
        if reached.orders > before {
            progress_at = Instant::now();
        }
        if due.is_empty() || progress_at.elapsed() >= STALL_MAX {
            return Ok(reached);
        }
        let pause = asked_at.elapsed() * PAUSE_PER_QUERY;
        tokio::time::sleep(pause.max(POLL_INTERVAL_MIN)).await;
    }
}

/// Counts the charges of every accepted order in the provider's own database.
pub(crate) async fn count_charges(
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

impl Reached {
    fn add(&mut self, due_unix_us: i64, at: DateTime<Utc>) {
        let unix_us = at.timestamp_micros();
        let took_us = u64::try_from(unix_us - due_unix_us).unwrap_or_default();
        self.orders += 1;
        record(&mut self.took, Duration::from_micros(took_us));
        self.first_unix_us = self.first_unix_us.min(unix_us);
        self.last_unix_us = self.last_unix_us.max(unix_us);
        self.times.push(Times {
            due_unix_us,
            reached_unix_us: unix_us,
        });
    }

    /// Orders per second, from the first request to the last order that got here.
    pub(crate) fn per_s(&self) -> f64 {
        let span_s = (self.last_unix_us - self.first_due_unix_us).max(0) as f64 / 1e6;
        self.orders as f64 / span_s.max(f64::EPSILON)
    }
}
