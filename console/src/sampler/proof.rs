//! The proof on the page: the checker's verdict, and whether every accepted order exists.

use chrono::{DateTime, Utc};
use invariants::{Databases, Severity, Violation};
use std::time::Duration;
use tokio::time::Instant;

use crate::app::App;
use crate::queries;
use crate::state::{Finding, Money, Proof, Verdict};

/// Between two checks while a page is open.
const INTERVAL: Duration = Duration::from_secs(2);
/// The same while no page is open.
const IDLE_INTERVAL: Duration = Duration::from_secs(30);
/// A check may take this share of the time at most.
const COST_FACTOR: u32 = 20;
/// Broken invariants that the page lists.
const FINDINGS_MAX: usize = 20;

#[derive(Default)]
pub(super) struct Checker {
    proof: Proof,
    checked_at: Option<DateTime<Utc>>,
    next_at: Option<Instant>,
}

impl Checker {
    /// Checks again if it is time.
    pub(super) async fn check(&mut self, app: &App, has_pages: bool) {
        if self.next_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        let started = Instant::now();
        match run(app).await {
            Ok(proof) => {
                self.proof = proof;
                self.checked_at = Some(Utc::now());
            }
            // The numbers stay, and their age shows.
            Err(_) => self.proof.verdict = Verdict::Unknown,
        }
        let interval = if has_pages { INTERVAL } else { IDLE_INTERVAL };
        self.next_at = Some(Instant::now() + interval.max(started.elapsed() * COST_FACTOR));
    }

    pub(super) fn proof(&self, app: &App) -> Proof {
        Proof {
            checked_at: self.checked_at,
            answers_2xx: app.hub.memory().answers_2xx,
            ..self.proof.clone()
        }
    }
}

async fn run(app: &App) -> anyhow::Result<Proof> {
    let databases = &app.pools.databases;
    let violations = invariants::always(databases).await?;
    let mut proof = counts(databases).await?;
    proof.verdict = verdict(&violations);
    proof.problems = violations.iter().take(FINDINGS_MAX).map(finding).collect();
    let answers = app.hub.memory().answers();
    let existing = queries::existing(&databases.order, &answers).await?;
    proof.lost = answers.len().saturating_sub(existing.len());
    if proof.lost > 0 {
        proof.verdict = Verdict::Violated;
        let known: std::collections::BTreeSet<_> = existing.into_iter().collect();
        let lost = answers.iter().find(|order| !known.contains(order));
        proof.problems.push(Finding {
            severity: "violated",
            invariant: "L1 no accepted order is lost".to_owned(),
            detail: format!("{} of the accepted orders do not exist", proof.lost),
            order_id: lost.map(|order| order.to_string()),
        });
    }
    Ok(proof)
}

async fn counts(databases: &Databases) -> anyhow::Result<Proof> {
    let (accepted, due): (i64, i64) = sqlx::query_as(
        "select count(*), coalesce(sum(amount) filter (where status in ('paid', 'shipped')), 0)::bigint
         from orders",
    )
    .fetch_one(&databases.order)
    .await?;
    let (once, more, taken): (i64, i64, i64) = sqlx::query_as(
        "select count(*) filter (where charges = 1), count(*) filter (where charges > 1),
                coalesce(sum(amount), 0)::bigint
         from (select count(*) as charges, sum(amount) as amount from charges
               where status = 'captured' group by reference) as by_order",
    )
    .fetch_one(&databases.psp)
    .await?;
    let given_back: i64 = sqlx::query_scalar(
        "select coalesce(sum(amount), 0)::bigint from refunds where status = 'refunded'",
    )
    .fetch_one(&databases.psp)
    .await?;
    Ok(Proof {
        accepted,
        charged_once: once,
        charged_more: more,
        not_charged_yet: (accepted - once - more).max(0),
        money: Money {
            taken,
            given_back,
            due,
            difference: taken - given_back - due,
        },
        ..Proof::default()
    })
}

fn verdict(violations: &[Violation]) -> Verdict {
    let is = |severity| violations.iter().any(|it| it.severity == severity);
    match (is(Severity::Violated), is(Severity::Repaired)) {
        (true, _) => Verdict::Violated,
        (false, true) => Verdict::Repaired,
        (false, false) => Verdict::Holds,
    }
}

fn finding(violation: &Violation) -> Finding {
    // Every detail begins with the order it is about.
    let order = violation
        .detail
        .split(|it: char| !it.is_ascii_hexdigit() && it != '-')
        .next();
    let order = order.filter(|text| uuid::Uuid::parse_str(text).is_ok());
    Finding {
        severity: match violation.severity {
            Severity::Violated => "violated",
            Severity::Repaired => "repaired",
        },
        invariant: violation.invariant.to_owned(),
        detail: violation.detail.clone(),
        order_id: order.map(str::to_owned),
    }
}
