//! How long orders take from request to shipment, measured on the newest orders of each sample. At low rates
//! these are all orders; at high rates they are a subset.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use chrono::{DateTime, Utc};
use endpoints::status::{ORDER_PAID, ORDER_SHIPPED};
use tokio::time::Instant;
use uuid::Uuid;

use crate::queries::OrderRow;

/// Open orders that are watched until they ship. When there are more, new ones are not watched.
const OPEN_MAX: usize = 200;
/// Shipped orders of the last window that the percentiles are taken from.
const SHIPPED_MAX: usize = 400;
/// The percentiles of a point cover this time.
const WINDOW: Duration = Duration::from_secs(5);
/// The state of an order that is not paid yet.
const ORDER_PLACED: &str = "placed";

#[derive(Default)]
pub(super) struct Latency {
    open: HashMap<Uuid, DateTime<Utc>>,
    /// Orders that were measured, so that none counts twice.
    done: VecDeque<Uuid>,
    took: VecDeque<(Instant, u64)>,
}

impl Latency {
    /// Measures orders that have shipped, and watches those in progress.
    pub(super) fn see(&mut self, rows: &[OrderRow]) {
        for row in rows {
            match row.status.as_str() {
                ORDER_PLACED | ORDER_PAID => {
                    if self.open.len() < OPEN_MAX {
                        self.open.insert(row.id, row.created_at);
                    }
                }
                status => {
                    self.open.remove(&row.id);
                    if status == ORDER_SHIPPED && !self.done.contains(&row.id) {
                        self.take(row);
                    }
                }
            }
        }
    }

    fn take(&mut self, row: &OrderRow) {
        let took = (row.updated_at - row.created_at).num_milliseconds().max(0);
        // An order that shipped long ago says nothing about the current window.
        let is_recent =
            Utc::now() - row.updated_at < chrono::Duration::seconds(WINDOW.as_secs() as i64);
        if is_recent {
            self.took.push_back((Instant::now(), took.unsigned_abs()));
        }
        self.done.push_back(row.id);
        if self.done.len() > SHIPPED_MAX {
            self.done.pop_front();
        }
        if self.took.len() > SHIPPED_MAX {
            self.took.pop_front();
        }
    }

    pub(super) fn open(&self) -> Vec<Uuid> {
        self.open.keys().copied().collect()
    }

    /// Median and 99th percentile of the last window; none without a shipment.
    pub(super) fn percentiles(&mut self) -> Option<(u64, u64)> {
        self.took.retain(|(at, _)| at.elapsed() < WINDOW);
        let mut sorted: Vec<u64> = self.took.iter().map(|(_, took)| *took).collect();
        sorted.sort_unstable();
        let at = |part: usize| {
            sorted
                .get((sorted.len().saturating_sub(1)) * part / 100)
                .copied()
        };
        Some((at(50)?, at(99)?))
    }
}
