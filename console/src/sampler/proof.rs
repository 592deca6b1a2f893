//! The proof on the page: the checker's verdict, and whether every accepted order exists.

use chrono::Utc;
use invariants::{Databases, Severity, Violation};
use std::sync::Arc;
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
/// Longest check; a database that is down does not answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Broken invariants that the page lists.
const FINDINGS_MAX: usize = 20;

/// Checks until the console stops.
pub(crate) async fn check(app: Arc<App>) {
    loop {
        let started = Instant::now();
        let is_resetting = app.hub.memory().is_resetting;
        if !is_resetting {
            let checked = tokio::select! {
                () = app.stop.cancelled() => return,
                checked = tokio::time::timeout(TIMEOUT, run(&app)) => checked,
            };
            match checked {
                Ok(Ok(proof)) => *app.proof() = proof,
                // The numbers stay, and their age shows.
                _ => app.proof().verdict = Verdict::Unknown,
            }
        }
        let has_pages = app.hub.pages() > 0;
        let interval = if has_pages { INTERVAL } else { IDLE_INTERVAL };
        let pause = interval.max(started.elapsed() * COST_FACTOR);
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
        answers_2xx: app.hub.memory().answers_2xx,
        ..app.proof().clone()
    }
}

async fn run(app: &App) -> anyhow::Result<Proof> {
    let databases = &app.pools.databases;
    let violations = invariants::always(databases).await?;
    let mut proof = counts(databases).await?;
    proof.verdict = verdict(&violations);
    proof.checked_at = Some(Utc::now());
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
