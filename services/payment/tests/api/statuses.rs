//! SQL has to spell out statuses in index predicates, constraints, and the queries that use the partial
//! indexes. These tests compare the literals with the enums.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use payment::domain::{AttemptStatus, RefundStatus};
use payment::reconciler::Trigger;
use testkit::postgres::literals;

use crate::harness::Harness;
use crate::reconciling::by_operator;

fn attempts(is_in: fn(AttemptStatus) -> bool) -> Vec<String> {
    let statuses = AttemptStatus::ALL.into_iter();
    let names = statuses.filter(|status| is_in(*status));
    names.map(|status| status.as_str().to_owned()).collect()
}

fn refunds(is_in: fn(RefundStatus) -> bool) -> Vec<String> {
    let statuses = RefundStatus::ALL.into_iter();
    let names = statuses.filter(|status| is_in(*status));
    names.map(|status| status.as_str().to_owned()).collect()
}

/// Each constraint and index that mentions the status, with its literals.
fn named(expected: &[(&str, Vec<String>)]) -> BTreeMap<String, BTreeSet<String>> {
    let named = expected.iter().cloned();
    named
        .map(|(name, literals)| (name.to_owned(), literals.into_iter().collect()))
        .collect()
}

#[tokio::test]
async fn schema_of_payments_uses_the_statuses_of_attempts() {
    let harness = Harness::create().await;
    let open = attempts(AttemptStatus::is_open);
    let only = |status: AttemptStatus| vec![status.as_str().to_owned()];
    let expected = named(&[
        ("captured_has_charge", only(AttemptStatus::Captured)),
        ("declined_has_code", only(AttemptStatus::Declined)),
        ("failed_has_code", only(AttemptStatus::Failed)),
        ("only_open_is_leased", open.clone()),
        ("payments_amount_check", only(AttemptStatus::Voided)),
        ("payments_one_live", attempts(AttemptStatus::is_live)),
        ("payments_queue", open),
        ("payments_status_check", attempts(|_| true)),
    ]);
    let found = literals::about(&harness.pool, "payments", "status").await;
    assert_eq!(found.unwrap(), expected);
}

#[tokio::test]
async fn schema_of_refunds_uses_the_statuses_of_refunds() {
    let harness = Harness::create().await;
    let open = refunds(RefundStatus::is_open);
    let only = |status: RefundStatus| vec![status.as_str().to_owned()];
    let (refunded, failed) = (only(RefundStatus::Refunded), only(RefundStatus::Failed));
    let expected = named(&[
        ("failed_has_code", failed.clone()),
        ("only_open_is_leased", open.clone()),
        ("refunded_has_id", refunded),
        ("refunds_failed", failed),
        ("refunds_queue", open),
        ("refunds_status_check", refunds(|_| true)),
    ]);
    let found = literals::about(&harness.pool, "refunds", "status").await;
    assert_eq!(found.unwrap(), expected);
}

#[tokio::test]
async fn schema_of_reconciliations_names_every_trigger() {
    let harness = Harness::create().await;
    let triggers = [Trigger::Schedule, by_operator(false)];
    let names = triggers.map(|trigger| trigger.name().to_owned());
    let expected = named(&[("reconciliations_trigger_check", names.into())]);
    let found = literals::about(&harness.pool, "reconciliations", "trigger").await;
    assert_eq!(found.unwrap(), expected);
}

/// The only status literals in queries are the predicates of partial indexes.
#[test]
fn queries_spell_out_open_statuses_only() {
    let open = attempts(AttemptStatus::is_open);
    assert_eq!(open, refunds(RefundStatus::is_open));
    let predicate = format!("status in ('{}')", open.join("', '"));
    let store = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store");
    let mut uses = 0;
    for file in fs::read_dir(store).unwrap() {
        let path = file.unwrap().path();
        let source = fs::read_to_string(&path).unwrap();
        uses += source.matches(&predicate).count();
        let failed = format!("status = '{}'", RefundStatus::Failed.as_str());
        let rest = source.replace(&predicate, "").replace(&failed, "");
        for name in attempts(|_| true).into_iter().chain(refunds(|_| true)) {
            let literal = format!("'{name}'");
            assert!(!rest.contains(&literal), "{literal} in {}", path.display());
        }
    }
    assert!(uses > 0, "no query uses the partial indexes");
}
