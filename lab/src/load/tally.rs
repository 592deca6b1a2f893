//! Counts and latencies that the load generator records while it sends.

use std::io;
use std::time::Duration;

use anyhow::Context;
use hdrhistogram::Histogram;
use serde::Serialize;
use uuid::Uuid;

/// Latencies up to ten minutes with three digits: about 100 KiB per histogram.
const LATENCY_MAX_US: u64 = 600_000_000;
const LATENCY_DIGITS: u8 = 3;

/// One accepted order and the wall-clock time at which its request was due.
#[derive(Debug, Clone, Copy)]
pub(super) struct Accepted {
    pub(super) id: Uuid,
    pub(super) due_unix_us: i64,
}

#[derive(Debug, Default, Clone, Serialize)]
pub(super) struct Counts {
    /// Orders that were sent at least once.
    pub(super) sent: u64,
    pub(super) retried: u64,
    pub(super) duplicated: u64,
    pub(super) hung_up: u64,
    /// Orders with a hang-up that already existed when the customer sent them again.
    pub(super) hung_up_existed: u64,
    /// 409 with Retry-After: the key was in flight.
    pub(super) in_flight: u64,
    /// 429 and 5xx.
    pub(super) unavailable: u64,
    pub(super) connection_errors: u64,
    /// Final 4xx. The generator sends only valid orders, so none is expected.
    pub(super) rejected: u64,
    /// Pairs of responses with one key that cannot both be true.
    pub(super) contradicted: u64,
    /// Orders that were not accepted before the tries ran out.
    pub(super) unresolved: u64,
}

pub(super) struct Tally {
    pub(super) orders: Vec<Accepted>,
    pub(super) counts: Counts,
    pub(super) responses: Histogram<u64>,
    pub(super) replays: Histogram<u64>,
    /// How late the generator sent: this should be far below the latencies that it reports.
    pub(super) lateness: Histogram<u64>,
    /// The first unexpected response or error, as a starting point for a search in the logs.
    pub(super) first_error: Option<String>,
}

impl Tally {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            orders: Vec::new(),
            counts: Counts::default(),
            responses: histogram()?,
            replays: histogram()?,
            lateness: histogram()?,
            first_error: None,
        })
    }

    pub(super) fn sent(&mut self, late: Duration) {
        self.counts.sent += 1;
        record(&mut self.lateness, late);
    }

    pub(super) fn accepted(&mut self, id: Uuid, due_unix_us: i64, latency: Option<Duration>) {
        self.orders.push(Accepted { id, due_unix_us });
        if let Some(latency) = latency {
            record(&mut self.responses, latency);
        }
    }

    pub(super) fn replay(&mut self, latency: Duration) {
        record(&mut self.replays, latency);
    }

    pub(super) fn retry_later(&mut self, status: u16) {
        if status == 409 {
            self.counts.in_flight += 1;
        } else {
            self.counts.unavailable += 1;
            self.keep_first_error(|| format!("response {status}"));
        }
    }

    pub(super) fn rejected(&mut self, status: u16) {
        self.counts.rejected += 1;
        self.keep_first_error(|| format!("rejected with {status}"));
    }

    pub(super) fn connection_error(&mut self, error: &io::Error) {
        self.counts.connection_errors += 1;
        self.keep_first_error(|| error.to_string());
    }

    fn keep_first_error(&mut self, what: impl FnOnce() -> String) {
        self.first_error.get_or_insert_with(what);
    }
}

pub(super) fn histogram() -> anyhow::Result<Histogram<u64>> {
    Histogram::new_with_max(LATENCY_MAX_US, LATENCY_DIGITS).context("creating a histogram")
}

pub(super) fn record(histogram: &mut Histogram<u64>, latency: Duration) {
    histogram.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(LATENCY_MAX_US));
}
