//! What the generator saw, counted as it happens.

use std::io;
use std::time::Duration;

use anyhow::Context;
use hdrhistogram::Histogram;
use serde::Serialize;
use uuid::Uuid;

/// Latencies up to ten minutes with three digits: about 100 KiB per histogram.
const LATENCY_MAX_US: u64 = 600_000_000;
const LATENCY_DIGITS: u8 = 3;

/// One accepted order and the wall-clock moment at which its request was due.
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
    /// Of those hung up on, how many the system had done by the time the customer came back.
    pub(super) hung_up_found_done: u64,
    /// 409 with Retry-After: the key was in flight.
    pub(super) in_flight: u64,
    /// 429 and 5xx.
    pub(super) turned_away: u64,
    pub(super) connection_errors: u64,
    /// Final 4xx. The generator sends only valid orders, so there should be none.
    pub(super) refused: u64,
    /// Two answers under one key that cannot both be true.
    pub(super) contradicted: u64,
    /// Never accepted within the tries.
    pub(super) unresolved: u64,
}

pub(super) struct Tally {
    pub(super) orders: Vec<Accepted>,
    pub(super) counts: Counts,
    pub(super) answers: Histogram<u64>,
    pub(super) replays: Histogram<u64>,
    /// How late the generator itself was: it should be far below the latencies it reports.
    pub(super) lateness: Histogram<u64>,
    /// The first odd answer or error, to have something to look for in the logs.
    pub(super) first_trouble: Option<String>,
}

impl Tally {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            orders: Vec::new(),
            counts: Counts::default(),
            answers: histogram()?,
            replays: histogram()?,
            lateness: histogram()?,
            first_trouble: None,
        })
    }

    pub(super) fn sent(&mut self, late: Duration) {
        self.counts.sent += 1;
        record(&mut self.lateness, late);
    }

    pub(super) fn accepted(&mut self, id: Uuid, due_unix_us: i64, latency: Option<Duration>) {
        self.orders.push(Accepted { id, due_unix_us });
        if let Some(latency) = latency {
            record(&mut self.answers, latency);
        }
    }

    pub(super) fn replay(&mut self, latency: Duration) {
        record(&mut self.replays, latency);
    }

    pub(super) fn put_off(&mut self, status: u16) {
        if status == 409 {
            self.counts.in_flight += 1;
        } else {
            self.counts.turned_away += 1;
            self.trouble(|| format!("answered {status}"));
        }
    }

    pub(super) fn refused(&mut self, status: u16) {
        self.counts.refused += 1;
        self.trouble(|| format!("refused with {status}"));
    }

    pub(super) fn broken(&mut self, error: &io::Error) {
        self.counts.connection_errors += 1;
        self.trouble(|| error.to_string());
    }

    fn trouble(&mut self, what: impl FnOnce() -> String) {
        self.first_trouble.get_or_insert_with(what);
    }
}

pub(super) fn histogram() -> anyhow::Result<Histogram<u64>> {
    Histogram::new_with_max(LATENCY_MAX_US, LATENCY_DIGITS).context("making a histogram")
}

pub(super) fn record(histogram: &mut Histogram<u64>, latency: Duration) {
    histogram.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(LATENCY_MAX_US));
}
