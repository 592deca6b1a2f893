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
pub(crate) struct Accepted {
    pub(crate) id: Uuid,
    pub(crate) due_unix_us: i64,
}

#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct Counts {
    /// Orders that were sent at least once.
    pub(crate) sent: u64,
    pub(crate) retried: u64,
    pub(crate) duplicated: u64,
    pub(crate) hung_up: u64,
    /// Orders with a hang-up that already existed when the customer sent them again.
    pub(crate) hung_up_existed: u64,
    /// 409 with Retry-After: the key was in flight.
    pub(crate) in_flight: u64,
    /// 429 and 5xx.
    pub(crate) unavailable: u64,
    pub(crate) connection_errors: u64,
    /// Final 4xx. The generator sends only valid orders, so none is expected.
    pub(crate) rejected: u64,
    /// Pairs of responses with one key that cannot both be true.
    pub(crate) contradicted: u64,
    /// Orders that were not accepted before the tries ran out.
    pub(crate) unresolved: u64,
}

pub(crate) struct Tally {
    pub(crate) orders: Vec<Accepted>,
    pub(crate) counts: Counts,
    pub(crate) responses: Histogram<u64>,
    pub(crate) replays: Histogram<u64>,
    /// How late the generator sent: this should be far below the latencies that it reports.
    pub(crate) lateness: Histogram<u64>,
    /// The first unexpected response or error, as a starting point for a search in the logs.
    pub(crate) first_error: Option<String>,
}

impl Tally {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            orders: Vec::new(),
            counts: Counts::default(),
            responses: histogram()?,
            replays: histogram()?,
            lateness: histogram()?,
            first_error: None,
        })
    }

    pub(crate) fn sent(&mut self, late: Duration) {
        self.counts.sent += 1;
        record(&mut self.lateness, late);
    }

    pub(crate) fn accepted(&mut self, id: Uuid, due_unix_us: i64, latency: Option<Duration>) {
        self.orders.push(Accepted { id, due_unix_us });
        if let Some(latency) = latency {
            record(&mut self.responses, latency);
        }
    }

    pub(crate) fn replay(&mut self, latency: Duration) {
        record(&mut self.replays, latency);
    }

    pub(crate) fn retry_later(&mut self, status: u16) {
        if status == 409 {
            self.counts.in_flight += 1;
        } else {
            self.counts.unavailable += 1;
            self.keep_first_error(|| format!("response {status}"));
        }
    }

    pub(crate) fn rejected(&mut self, status: u16) {
        self.counts.rejected += 1;
        self.keep_first_error(|| format!("rejected with {status}"));
    }

    pub(crate) fn connection_error(&mut self, error: &io::Error) {
        self.counts.connection_errors += 1;
        self.keep_first_error(|| error.to_string());
    }

    fn keep_first_error(&mut self, what: impl FnOnce() -> String) {
        self.first_error.get_or_insert_with(what);
    }
}

pub(crate) fn histogram() -> anyhow::Result<Histogram<u64>> {
    Histogram::new_with_max(LATENCY_MAX_US, LATENCY_DIGITS).context("creating a histogram")
}

pub(crate) fn record(histogram: &mut Histogram<u64>, latency: Duration) {
    histogram.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(LATENCY_MAX_US));
}
