//! SQL has to spell out statuses in index predicates, constraints, and the queries that use the partial
//! indexes. These tests compare the literals with the enums.

use std::fs;
use std::path::Path;

use payment::domain::{AttemptStatus, RefundStatus};

use crate::harness::Harness;

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

/// The quoted strings of a piece of SQL, in their order.
fn literals(sql: &str) -> Vec<String> {
    let quoted = sql.split('\'').skip(1).step_by(2);
    quoted.map(str::to_owned).collect()
}

/// The literals in the definitions of all constraints and indexes of a table that mention its status,
/// by name.
async fn schema_literals(harness: &Harness, table: &'static str) -> Vec<(String, Vec<String>)> {
    let definitions: Vec<(String, String)> = sqlx::query_as(
        "select conname::text, pg_get_constraintdef(oid) from pg_constraint
         where conrelid = $1::regclass
         union all
         select indexrelid::regclass::text, pg_get_indexdef(indexrelid) from pg_index
         where indrelid = $1::regclass
         order by 1",
    )
    .bind(table)
    .fetch_all(&harness.pool)
    .await
    .unwrap();
    let with_status = definitions.into_iter().filter(|it| it.1.contains("status"));
    with_status
        .map(|(name, definition)| (name, literals(&definition)))
        .collect()
}

fn named(expected: &[(&str, Vec<String>)]) -> Vec<(String, Vec<String>)> {
    let mut named: Vec<(String, Vec<String>)> = expected
        .iter()
        .map(|(name, literals)| ((*name).to_owned(), literals.clone()))
        .collect();
    named.sort();
    named
}

#[tokio::test]
async fn schema_of_payments_uses_the_statuses_of_attempts() {
    let harness = Harness::create().await;
    let open = attempts(AttemptStatus::is_open);
    let only = |status: AttemptStatus| vec![status.as_str().to_owned()];
    let expected = named(&[
        ("captured_has_charge", only(AttemptStatus::Captured)),
        ("declined_has_code", only(AttemptStatus::Declined)),
        ("only_open_is_leased", open.clone()),
        ("payments_amount_check", only(AttemptStatus::Voided)),
        ("payments_one_live", attempts(AttemptStatus::is_live)),
        ("payments_queue", open),
        ("payments_status_check", attempts(|_| true)),
    ]);
    let mut found = schema_literals(&harness, "payments").await;
    found.sort();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn schema_of_refunds_uses_the_statuses_of_refunds() {
    let harness = Harness::create().await;
    let open = refunds(RefundStatus::is_open);
    let refunded = vec![RefundStatus::Refunded.as_str().to_owned()];
    let expected = named(&[
        ("only_open_is_leased", open.clone()),
        ("refunded_has_id", refunded),
        ("refunds_queue", open),
        ("refunds_status_check", refunds(|_| true)),
    ]);
    let mut found = schema_literals(&harness, "refunds").await;
    found.sort();
    assert_eq!(found, expected);
}

/// The only status literals in queries are the predicate of the partial indexes of due rows.
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
        let rest = source.replace(&predicate, "");
        for name in attempts(|_| true).into_iter().chain(refunds(|_| true)) {
            let literal = format!("'{name}'");
            assert!(!rest.contains(&literal), "{literal} in {}", path.display());
        }
    }
    assert!(uses > 0, "no query uses the partial indexes");
}
