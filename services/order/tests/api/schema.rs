//! The tables agree with the types of the service.

use std::collections::BTreeSet;

use order::domain::Status;
use sqlx::PgPool;

use crate::harness::{migrated, pool};

/// The quoted literals of the check constraint on `orders.status`.
async fn statuses_of_the_table(pool: &PgPool) -> BTreeSet<String> {
    let definition: String = sqlx::query_scalar(
        "select pg_get_constraintdef(oid) from pg_constraint where conname = 'orders_status_known'",
    )
    .fetch_one(pool)
    .await
    .unwrap();
    let literals = definition.split('\'').skip(1).step_by(2);
    literals.map(str::to_owned).collect()
}

#[tokio::test]
async fn status_constraint_lists_exactly_the_enum() {
    let pool = pool(&migrated().await);
    let expected: BTreeSet<String> = Status::ALL.map(|status| status.to_string()).into();
    assert_eq!(statuses_of_the_table(&pool).await, expected);
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
