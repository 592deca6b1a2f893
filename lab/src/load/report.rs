//! The report: figures of one run, their ratios to the machine's own limit, and the verdict.

use serde::Serialize;

use super::percentiles::Percentiles;
use super::settle::Books;
use super::tally::Counts;
use super::usage::Usage;
use super::watch::Sample;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// How it was driven, in words.
    pub(super) drive: String,
    pub(super) accepted: u64,
    pub(super) accepted_per_s: f64,
    pub(super) shipped: u64,
    pub(super) shipped_per_s: f64,
    pub(super) answer: Percentiles,
    pub(super) replay: Percentiles,
    pub(super) request_to_shipped: Percentiles,
    pub(super) generator_late: Percentiles,
    pub(super) counts: Counts,
    pub(super) first_trouble: Option<String>,
    pub(super) backlog: Vec<Sample>,
    pub(super) usage: Vec<Usage>,
    pub(super) books: Books,
    pub(super) limit: Option<Limit>,
    pub(super) drain: Option<Drain>,
}

/// pgbench running the order service's own intake statement, one order per commit.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Limit {
    pub(super) clients: usize,
    pub(super) tps: f64,
    pub(super) latency_ms: f64,
    pub(super) cpu_s: f64,
    pub(super) seconds: u64,
}

/// The backlog variant: what it took to work off orders that had piled up without payment.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Drain {
    pub(super) orders: u64,
    pub(super) seconds: f64,
    /// Of these, until the first of them shipped: the restart and joining the consumer group.
    pub(super) first_after_s: f64,
    pub(super) orders_per_s: f64,
    /// Peak memory before payment came back, and at the end.
    pub(super) before: Vec<Usage>,
    pub(super) after: Vec<Usage>,
}

impl Report {
    /// Everything that makes the run a failure; empty if the promise held.
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
                "{} references in the PSP's books are charged more than once",
                books.any_reference_charged_twice
            ),
        );
        fail_if(
            self.accepted < accepted_min,
            format!(
                "only {} accepted, {accepted_min} needed to mean anything",
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
            books.charged_once + not_once != self.accepted,
            format!(
                "{} accepted answers name {} orders",
                self.accepted,
                books.charged_once + not_once
            ),
        );
        let counts = &self.counts;
        fail_if(
            counts.contradicted > 0,
            format!(
                "{} answers contradict another under the same key",
                counts.contradicted
            ),
        );
        fail_if(
            counts.refused > 0,
            format!("{} valid orders were refused", counts.refused),
        );
        fail_if(
            counts.unresolved > 0,
            format!("{} orders never got a final answer", counts.unresolved),
        );
        failures
    }

    /// Accepted and shipped orders per second as parts of what bare SQL does on this machine.
    pub(super) fn ratios(&self) -> Option<(f64, f64)> {
        let tps = self.limit.as_ref()?.tps;
        (tps > 0.0).then(|| (self.accepted_per_s / tps, self.shipped_per_s / tps))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::load) fn sound() -> Report {
        let books = Books {
            charged_once: 100,
            ..Books::default()
        };
        Report {
            drive: "32 clients, closed loop".to_owned(),
            accepted: 100,
            accepted_per_s: 50.0,
            shipped: 100,
            shipped_per_s: 25.0,
            answer: Percentiles::default(),
            replay: Percentiles::default(),
            request_to_shipped: Percentiles::default(),
            generator_late: Percentiles::default(),
            counts: Counts {
                sent: 100,
                ..Counts::default()
            },
            first_trouble: None,
            backlog: Vec::new(),
            usage: Vec::new(),
            books,
            limit: Some(Limit {
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
    fn a_sound_run_has_no_failures_and_its_ratios_are_those_of_the_limit() {
        assert_eq!(sound().failures(100), Vec::<String>::new());
        assert_eq!(sound().ratios(), Some((0.5, 0.25)));
    }

    #[test]
    fn each_broken_promise_fails_the_run() {
        let breaks: [fn(&mut Report); 8] = [
            |report| {
                report.books = Books {
                    charged_once: 99,
                    charged_more_than_once: 1,
                    ..Books::default()
                }
            },
            |report| {
                report.books = Books {
                    charged_once: 99,
                    not_charged: 1,
                    ..Books::default()
                }
            },
            |report| report.books.any_reference_charged_twice = 1,
            |report| report.books.charged_once = 99,
            |report| report.shipped = 99,
            |report| report.counts.contradicted = 1,
            |report| report.counts.refused = 1,
            |report| report.counts.unresolved = 1,
        ];
        for (index, break_it) in breaks.into_iter().enumerate() {
            let mut report = sound();
            break_it(&mut report);
            assert_eq!(report.failures(100).len(), 1, "break {index}");
        }
    }

    #[test]
    fn a_run_that_accepted_next_to_nothing_proves_nothing() {
        assert_eq!(sound().failures(101).len(), 1);
    }
}
