//! The report: figures of one run, their ratios to bare SQL, and the promises that were broken.

use serde::Serialize;

use super::sampler::Sample;
use crate::generator::tally::Counts;
use crate::measure::percentiles::Percentiles;
use crate::measure::pgbench::SqlLimit;
use crate::measure::shipping::LedgerCounts;
use crate::measure::usage::Usage;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// How the orders were sent, in words.
    pub(super) drive: String,
    pub(super) accepted: u64,
    pub(super) accepted_per_s: f64,
    pub(super) shipped: u64,
    pub(super) shipped_per_s: f64,
    /// Receipts that the mail server accepted.
    pub(super) receipts: u64,
    pub(super) receipts_per_s: f64,
    pub(super) response: Percentiles,
    pub(super) replay: Percentiles,
    pub(super) request_to_shipped: Percentiles,
    pub(super) request_to_receipt: Percentiles,
    pub(super) generator_late: Percentiles,
    pub(super) counts: Counts,
    pub(super) first_error: Option<String>,
    pub(super) backlog: Vec<Sample>,
    pub(super) usage: Vec<Usage>,
    pub(super) books: LedgerCounts,
    pub(super) limit: Option<SqlLimit>,
    pub(super) drain: Option<BacklogDrain>,
}

/// With `--backlog`: how fast the orders shipped that were accepted while payment was stopped.
#[derive(Debug, Clone, Serialize)]
pub(super) struct BacklogDrain {
    pub(super) orders: u64,
    pub(super) seconds: f64,
    /// The part of `seconds` before the first order shipped: restarting and joining the consumer group.
    pub(super) first_after_s: f64,
    pub(super) orders_per_s: f64,
    /// Peak memory before payment was started again, and at the end.
    pub(super) before: Vec<Usage>,
    pub(super) after: Vec<Usage>,
}

impl Report {
    /// Every broken promise; empty if the run is good.
    pub(super) fn failures(&self, accepted_min: u64) -> Vec<String> {
        let mut failures = Vec::new();
        let mut fail_if = |failed: bool, what: String| failed.then(|| failures.push(what));
        let books = &self.books;
        let not_once = books.not_charged + books.charged_more_than_once;
        fail_if(
            not_once > 0,
            format!("{not_once} accepted orders do not have exactly one charge"),
        );
        fail_if(
            books.any_reference_charged_twice > 0,
            format!(
                "{} references in the provider's books are charged more than once",
                books.any_reference_charged_twice
            ),
        );
        fail_if(
            self.accepted < accepted_min,
            format!(
                "only {} orders were accepted, at least {accepted_min} are needed",
                self.accepted
            ),
        );
        fail_if(
            self.shipped < self.accepted,
            format!(
                "{} accepted orders did not ship",
                self.accepted - self.shipped
            ),
        );
        fail_if(
            self.receipts < self.accepted,
            format!(
                "{} accepted orders have no sent receipt",
                self.accepted.saturating_sub(self.receipts)
            ),
        );
        fail_if(
            books.charged_once + not_once != self.accepted,
            format!(
                "{} accepting responses name {} orders",
                self.accepted,
                books.charged_once + not_once
            ),
        );
        let counts = &self.counts;
        fail_if(
            counts.contradicted > 0,
            format!(
                "{} responses contradict another with the same key",
                counts.contradicted
            ),
        );
        fail_if(
            counts.rejected > 0,
            format!("{} valid orders were rejected", counts.rejected),
        );
        fail_if(
            counts.unresolved > 0,
            format!("{} orders never got a final response", counts.unresolved),
        );
        failures
    }

    /// Accepted and shipped orders per second, relative to bare SQL on this machine.
    pub(super) fn ratios(&self) -> Option<(f64, f64)> {
        let tps = self.limit.as_ref()?.tps;
        (tps > 0.0).then(|| (self.accepted_per_s / tps, self.shipped_per_s / tps))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::load) fn good() -> Report {
        let books = LedgerCounts {
            charged_once: 100,
            ..LedgerCounts::default()
        };
        Report {
            drive: "32 clients, closed loop".to_owned(),
            accepted: 100,
            accepted_per_s: 50.0,
            shipped: 100,
            shipped_per_s: 25.0,
            receipts: 100,
            receipts_per_s: 20.0,
            response: Percentiles::default(),
            replay: Percentiles::default(),
            request_to_shipped: Percentiles::default(),
            request_to_receipt: Percentiles::default(),
            generator_late: Percentiles::default(),
            counts: Counts {
                sent: 100,
                ..Counts::default()
            },
            first_error: None,
            backlog: Vec::new(),
            usage: Vec::new(),
            books,
            limit: Some(SqlLimit {
                clients: 32,
                tps: 100.0,
                latency_ms: 1.0,
                cpu_s: 1.0,
                seconds: 10,
            }),
            drain: None,
        }
    }

    #[test]
    fn good_run_has_ratios_and_no_failures() {
        assert_eq!(good().failures(100), Vec::<String>::new());
        assert_eq!(good().ratios(), Some((0.5, 0.25)));
    }

    #[test]
    fn every_broken_promise_fails_the_run() {
        let breaks: [fn(&mut Report); 9] = [
            |report| {
                report.books = LedgerCounts {
                    charged_once: 99,
                    charged_more_than_once: 1,
                    ..LedgerCounts::default()
                }
            },
            |report| {
                report.books = LedgerCounts {
                    charged_once: 99,
                    not_charged: 1,
                    ..LedgerCounts::default()
                }
            },
            |report| report.books.any_reference_charged_twice = 1,
            |report| report.books.charged_once = 99,
            |report| report.shipped = 99,
            |report| report.receipts = 99,
            |report| report.counts.contradicted = 1,
            |report| report.counts.rejected = 1,
            |report| report.counts.unresolved = 1,
        ];
        for (index, break_it) in breaks.into_iter().enumerate() {
            let mut report = good();
            break_it(&mut report);
            assert_eq!(report.failures(100).len(), 1, "break {index}");
        }
    }

    #[test]
    fn run_with_too_few_accepted_orders_fails() {
        assert_eq!(good().failures(101).len(), 1);
    }
}
