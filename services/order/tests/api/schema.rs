//! The tables agree with the types of the service.

use std::collections::BTreeSet;

use order::domain::Status;
use testkit::postgres::literals::of_constraint;

use crate::harness::{migrated, pool};

#[tokio::test]
async fn status_constraint_lists_exactly_the_enum() {
    let pool = pool(&migrated().await);
    let expected: BTreeSet<String> = Status::ALL.map(|status| status.to_string()).into();
    let literals = of_constraint(&pool, "orders_status_known").await.unwrap();
    assert_eq!(literals, expected);
}

#[tokio::test]
async fn status_has_no_default_beside_the_enum() {
    let pool = pool(&migrated().await);
    let default: Option<String> = sqlx::query_scalar(
        "select column_default from information_schema.columns
         where table_name = 'orders' and column_name = 'status'",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    assert_eq!(default, None);
}
