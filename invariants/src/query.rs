//! Running the checker's queries.

use std::collections::BTreeMap;

use anyhow::Context;
use sqlx::PgPool;

/// Rows of any service's outbox that the relay has not published.
pub(crate) const UNPUBLISHED: &str = "select count(*) from outbox where published_at is null";

/// One number: a count or a sum.
pub(crate) async fn count(pool: &PgPool, query: &'static str) -> anyhow::Result<i64> {
    sqlx::query_scalar(query)
        .fetch_one(pool)
        .await
        .context(query)
}

/// One text per row.
pub(crate) async fn lines(pool: &PgPool, query: &'static str) -> anyhow::Result<Vec<String>> {
    sqlx::query_scalar(query)
        .fetch_all(pool)
        .await
        .context(query)
}

/// A number per order.
pub(crate) async fn per_order(
    pool: &PgPool,
    query: &'static str,
) -> anyhow::Result<BTreeMap<String, i64>> {
    let rows: Vec<(String, i64)> = sqlx::query_as(query).fetch_all(pool).await.context(query)?;
    Ok(rows.into_iter().collect())
}
