//! After the drive: waits until everything that was accepted has shipped, then reads the books.

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

/// Orders whose state is asked for in one query.
const BATCH_MAX: usize = 10_000;
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// A system that ships nothing for so long will not ship the rest.
const STALL_MAX: Duration = Duration::from_secs(60);

/// What became of the accepted orders.
pub(super) struct Settled {
    pub(super) shipped: u64,
    /// From the due moment of the request to the transaction that made the order `shipped`.
    pub(super) to_shipped: Histogram<u64>,
    pub(super) first_due_unix_us: i64,
    pub(super) first_shipped_unix_us: i64,
    pub(super) last_shipped_unix_us: i64,
    pub(super) unshipped: Vec<Uuid>,
}

#[derive(Debug, Default, Clone, Serialize)]
pub(super) struct Books {
    pub(super) charged_once: u64,
    pub(super) not_charged: u64,
    pub(super) charged_more_than_once: u64,
    /// Orders beyond those accepted, in the whole of the books.
    pub(super) any_reference_charged_twice: u64,
}

/// Bounded by progress: ends when all are shipped, or when nothing has moved for [`STALL_MAX`].
pub(super) async fn wait_until_shipped(
    orders: &PgPool,
    accepted: &[Accepted],
) -> anyhow::Result<Settled> {
    let mut due: HashMap<Uuid, i64> = accepted
        .iter()
        .map(|order| (order.id, order.due_unix_us))
        .collect();
    let mut settled = Settled {
        shipped: 0,
        to_shipped: histogram()?,
        first_due_unix_us: due.values().copied().min().unwrap_or_default(),
        first_shipped_unix_us: i64::MAX,
        last_shipped_unix_us: 0,
        unshipped: Vec::new(),
    };
    let mut moved_at = Instant::now();
    loop {
        let open: Vec<Uuid> = due.keys().copied().collect();
        let shipped_before = settled.shipped;
        for batch in open.chunks(BATCH_MAX) {
            for (id, shipped_at) in shipped_of(orders, batch).await? {
                if let Some(due_unix_us) = due.remove(&id) {
                    settled.note(due_unix_us, shipped_at);
                }
            }
        }
        if settled.shipped > shipped_before {
            moved_at = Instant::now();
        }
        if due.is_empty() || moved_at.elapsed() >= STALL_MAX {
            settled.unshipped = due.into_keys().collect();
            return Ok(settled);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Counts the charges of every accepted order in the PSP's own database.
pub(super) async fn read_books(psp: &PgPool, accepted: &[Accepted]) -> anyhow::Result<Books> {
    let ids: Vec<Uuid> = accepted.iter().map(|order| order.id).collect();
    let mut books = Books::default();
    for count in provider::charges_per_order(psp, &ids).await?.into_values() {
        match count {
            1 => books.charged_once += 1,
            0 => books.not_charged += 1,
            _ => books.charged_more_than_once += 1,
        }
    }
    books.any_reference_charged_twice = provider::references_charged_twice(psp).await?.len() as u64;
    Ok(books)
}

impl Settled {
    fn note(&mut self, due_unix_us: i64, shipped_at: DateTime<Utc>) {
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

/// `updated_at` is the start of the transaction that shipped it, so a few milliseconds flattering.
async fn shipped_of(orders: &PgPool, ids: &[Uuid]) -> anyhow::Result<Vec<(Uuid, DateTime<Utc>)>> {
    sqlx::query_as("select id, updated_at from orders where id = any($1) and status = 'shipped'")
        .bind(ids)
        .fetch_all(orders)
        .await
        .context("asking which orders have shipped")
}
