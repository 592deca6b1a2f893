//! Counts in the provider's own database. Only its ledger proves what was charged; a response of
//! one of our services does not.

use std::collections::HashMap;

use anyhow::Context;
use sqlx::PgPool;
use uuid::Uuid;

/// Ids per query; keeps one bind message well below a megabyte.
const ORDERS_PER_QUERY_MAX: usize = 10_000;

/// Captured charges per order. An order without a charge is in the result with zero.
pub async fn charges_per_order(
    psp: &PgPool,
    orders: &[Uuid],
) -> anyhow::Result<HashMap<Uuid, i64>> {
    let query = "select reference, count(*) from charges
                 where reference = any($1) and status = 'captured' group by 1";
    count_per_order(psp, orders, query).await
}

/// Completed refunds per order. An order without a refund is in the result with zero.
pub async fn refunds_per_order(
    psp: &PgPool,
    orders: &[Uuid],
) -> anyhow::Result<HashMap<Uuid, i64>> {
    let query = "select reference, count(*) from refunds
                 where reference = any($1) and status = 'refunded' group by 1";
    count_per_order(psp, orders, query).await
}

async fn count_per_order(
    psp: &PgPool,
    orders: &[Uuid],
    query: &'static str,
) -> anyhow::Result<HashMap<Uuid, i64>> {
    let mut counts: HashMap<Uuid, i64> = orders.iter().map(|id| (*id, 0)).collect();
    for batch in orders.chunks(ORDERS_PER_QUERY_MAX) {
        let references: Vec<String> = batch.iter().map(Uuid::to_string).collect();
        let rows: Vec<(String, i64)> = sqlx::query_as(query)
            .bind(references)
            .fetch_all(psp)
            .await
            .context("counting in the provider's ledger")?;
        for (reference, count) in rows {
            let id = Uuid::parse_str(&reference).context("a reference is not an order id")?;
            counts.insert(id, count);
        }
    }
    Ok(counts)
}

/// References with more than one charge, in the whole ledger. This also finds a double charge for
/// an order whose acceptance never reached the caller.
pub async fn references_charged_twice(psp: &PgPool) -> anyhow::Result<Vec<String>> {
    sqlx::query_scalar(
        "select reference from charges where status = 'captured'
         group by reference having count(*) > 1 limit 100",
    )
    .fetch_all(psp)
    .await
    .context("looking for double charges in the provider's ledger")
}
