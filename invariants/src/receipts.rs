//! The log of receipts beside the payments that they are for.

use std::collections::BTreeMap;

use anyhow::Context;
use sqlx::PgPool;

/// Orders whose log does not have exactly one receipt for each time that money was taken. Direct
/// charges are announced to nobody, and get none.
pub(super) async fn differences(payment: &PgPool, receipt: &PgPool) -> anyhow::Result<Vec<String>> {
    let captured = per_order(
        payment,
        "select order_id::text, count(*) from payments
         where charge_id is not null and principal_id is null group by 1",
    )
    .await?;
    let logged = per_order(
        receipt,
        "select order_id::text, count(*) from receipts group by 1",
    )
    .await?;
    let mut orders: Vec<&String> = captured.keys().chain(logged.keys()).collect();
    orders.sort_unstable();
    orders.dedup();
    let count = |of: &BTreeMap<String, i64>, order| of.get(order).copied().unwrap_or_default();
    let differences = orders.into_iter().filter_map(|order| {
        let (captured, logged) = (count(&captured, order), count(&logged, order));
        let differ = captured != logged || logged > 1;
        differ.then(|| format!("{order}: captured {captured} times, {logged} receipts"))
    });
    Ok(differences.collect())
}

async fn per_order(pool: &PgPool, query: &'static str) -> anyhow::Result<BTreeMap<String, i64>> {
    let rows: Vec<(String, i64)> = sqlx::query_as(query).fetch_all(pool).await.context(query)?;
    Ok(rows.into_iter().collect())
}
