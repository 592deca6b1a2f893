//! The proof on the page: the checker's verdict, and whether every accepted order exists.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use invariants::{Databases, ProofState, Severity, Verdict, Violation};
use tokio::time::Instant;
use uuid::Uuid;

use crate::app::App;
use crate::queries;
use crate::state::Proof;

/// Between two checks while a page is open. Each costs what is new.
const INTERVAL: Duration = Duration::from_secs(2);
/// The same while many orders arrive: most are then read only once, in a terminal state.
const BUSY_INTERVAL: Duration = Duration::from_secs(5);
/// The same while no page is open.
const IDLE_INTERVAL: Duration = Duration::from_secs(30);
/// A check may take one part in this many of the time, unless the pause would be longer than that of an idle
/// console: one slow answer of a database must not hide the verdict for minutes.
const COST_FACTOR: u32 = 10;
/// If a check takes longer than this, the verdict becomes unknown: a database is down.
const SILENCE_MAX: Duration = Duration::from_secs(6);
/// Accepted orders that one check looks for: the newest, and the next ones of a walk over all.
const NEWEST_MAX: usize = 100;
const WALKED_MAX: usize = 100;
/// The invariant that the console checks itself.
const LOST: &str = "L1 no accepted order is lost";

/// Checks until the console stops.
pub(crate) async fn check(app: Arc<App>) {
    let mut checker = Checker::new(&app);
    loop {
        let started = Instant::now();
        if !app.hub.memory().is_resetting {
            tokio::select! {
                () = app.stop.cancelled() => return,
                () = checker.step_or_unknown(&app) => {}
            }
        }
        let has_pages = app.hub.pages() > 0;
        let interval = match (has_pages, app.is_busy()) {
            (true, false) => INTERVAL,
            (true, true) => BUSY_INTERVAL,
            (false, _) => IDLE_INTERVAL,
        };
        // Until the history is read, there is no pause between steps.
        let interval = if checker.is_loaded {
            interval
        } else {
            Duration::ZERO
        };
        let pause = interval.max(IDLE_INTERVAL.min(started.elapsed() * COST_FACTOR));
        tokio::select! {
            () = app.stop.cancelled() => return,
            () = app.check_now.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// The last result.
pub(super) fn latest(app: &App) -> Proof {
    Proof {
        responses_2xx: app.hub.memory().responses_2xx,
        ..app.proof().clone()
    }
}

struct Checker {
    books: invariants::Proof,
    is_loaded: bool,
    accepted: AcceptedOrders,
    resets: u64,
}

impl Checker {
    fn new(app: &App) -> Self {
        let Databases {
            order,
            payment,
            fulfilment,
            receipt,
            psp,
        } = &app.pools.databases;
        let databases = Databases {
            order: order.clone(),
            payment: payment.clone(),
            fulfilment: fulfilment.clone(),
            receipt: receipt.clone(),
            psp: psp.clone(),
        };
        Self {
            books: invariants::Proof::new(databases),
            is_loaded: false,
            accepted: AcceptedOrders::default(),
            resets: app.hub.memory().resets,
        }
    }

    /// One step. If it takes too long, the verdict becomes unknown, and the numbers and their time stay.
    /// The step is not abandoned: the next one would have to read the history again.
    async fn step_or_unknown(&mut self, app: &App) {
        let resets = app.hub.memory().resets;
        if resets != self.resets {
            *self = Self::new(app);
        }
        let unknown = || app.proof().verdict = Verdict::Unknown;
        let step = self.step(app);
        tokio::pin!(step);
        let checked = match tokio::time::timeout(SILENCE_MAX, &mut step).await {
            Ok(checked) => checked,
            Err(_) => {
                unknown();
                step.await
            }
        };
        // The data may have been deleted since.
        match checked {
            Ok(proof) if app.hub.memory().resets == resets => *app.proof() = proof,
            _ => unknown(),
        }
    }

    async fn step(&mut self, app: &App) -> anyhow::Result<Proof> {
        let mut checked = self.books.step().await?;
        self.is_loaded = checked.loaded;
        self.accepted.check(app).await?;
        let lost = self.accepted.lost.len();
        if let Some(order) = self.accepted.lost.first() {
            add_lost(&mut checked, lost, *order);
        }
        Ok(Proof {
            checked_at: Some(Utc::now()),
            lost,
            ..Proof::from(checked)
        })
    }
}

fn add_lost(checked: &mut ProofState, lost: usize, order: Uuid) {
    checked.verdict = Verdict::Violated;
    checked.problems.push(Violation {
        severity: Severity::Violated,
        invariant: LOST,
        detail: format!("{order}: accepted, but does not exist ({lost} in total)"),
        order_id: Some(order.to_string()),
    });
}

/// Checks that every order for which the console received a 2xx exists.
#[derive(Default)]
struct AcceptedOrders {
    /// Where the walk over all of them continues.
    next: usize,
    lost: BTreeSet<Uuid>,
}

impl AcceptedOrders {
    async fn check(&mut self, app: &App) -> anyhow::Result<()> {
        let all = app.hub.memory().accepted();
        let chosen = self.choose(&all);
        if chosen.is_empty() {
            return Ok(());
        }
        let existing = queries::existing(&app.pools.databases.order, &chosen).await?;
        let existing: BTreeSet<Uuid> = existing.into_iter().collect();
        self.lost = chosen
            .into_iter()
            .filter(|id| !existing.contains(id))
            .collect();
        Ok(())
    }

    /// The newest, the next ones of the walk, and those that were lost.
    fn choose(&mut self, all: &[Uuid]) -> Vec<Uuid> {
        if self.next >= all.len() {
            self.next = 0;
        }
        let walked = all[self.next..].iter().take(WALKED_MAX);
        self.next += walked.len();
        let newest = all.iter().rev().take(NEWEST_MAX);
        let chosen: BTreeSet<Uuid> = walked.chain(newest).chain(&self.lost).copied().collect();
        chosen.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walk_reaches_every_accepted_order() {
        let all: Vec<Uuid> = (0..350).map(Uuid::from_u128).collect();
        let mut accepted = AcceptedOrders::default();
        let mut seen = BTreeSet::new();
        for _ in 0..4 {
            let chosen = accepted.choose(&all);
            assert!(chosen.len() <= NEWEST_MAX + WALKED_MAX);
            seen.extend(chosen);
        }
        assert_eq!(seen.len(), all.len());
    }
}
