//! `outbox::COLUMNS` is the contract for statements that insert events.

use std::collections::BTreeSet;

use crate::harness::Harness;

const ENQUEUE_SQL: &str = include_str!("../../queries/enqueue.sql");

/// Columns that the table or the relay fills.
const OWN_COLUMNS: [&str; 5] = ["id", "created_at", "published_at", "held", "republished"];

#[test]
fn enqueue_fills_the_columns_of_the_contract() {
    let (_, rest) = ENQUEUE_SQL.split_once("insert into outbox (").unwrap();
    let (list, _) = rest.split_once(')').unwrap();
    let columns: Vec<&str> = list.split(',').map(str::trim).collect();
    assert_eq!(columns, outbox::COLUMNS);
}

#[tokio::test]
async fn table_has_the_columns_of_the_contract() {
    let harness = Harness::create().await;
    let columns: Vec<String> = sqlx::query_scalar(
        "select column_name::text from information_schema.columns
         where table_schema = current_schema() and table_name = 'outbox'",
    )
    .fetch_all(&harness.pool)
    .await
    .unwrap();
    let in_table: BTreeSet<&str> = columns.iter().map(String::as_str).collect();
    let expected = outbox::COLUMNS.into_iter().chain(OWN_COLUMNS).collect();
    assert_eq!(in_table, expected);
}
