//! Stock: how many units of each SKU are available and reserved.

use std::collections::BTreeMap;

use sqlx::PgConnection;

/// Locks these SKUs and returns what is available of each. SKUs that do not exist are absent from
/// the result. The rows are locked in the order of their names, so that two batches cannot
/// deadlock.
pub async fn lock(
    connection: &mut PgConnection,
    skus: &[String],
) -> sqlx::Result<BTreeMap<String, i64>> {
    let rows = sqlx::query!(
        "select sku, available from stock where sku = any($1) order by sku for update",
        skus
    )
    .fetch_all(connection)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| (row.sku, row.available))
        .collect())
}

/// Moves quantities from available to reserved. The table's check constraint fails the statement
/// if a SKU would go below zero.
pub async fn reserve(
    connection: &mut PgConnection,
    quantities: &BTreeMap<String, i64>,
) -> sqlx::Result<()> {
    let skus: Vec<&str> = quantities.keys().map(String::as_str).collect();
    let quantities: Vec<i64> = quantities.values().copied().collect();
    sqlx::query!(
        "update stock
         set available = available - wanted.quantity, reserved = reserved + wanted.quantity
         from unnest($1::text[], $2::bigint[]) as wanted (sku, quantity)
         where stock.sku = wanted.sku",
        &skus as &[&str],
        &quantities
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Moves quantities that were shipped before from available to reserved. What is not available is
/// reserved too, and a SKU that is not known is added.
pub async fn take(
    connection: &mut PgConnection,
    quantities: &BTreeMap<String, i64>,
) -> sqlx::Result<()> {
    let skus: Vec<&str> = quantities.keys().map(String::as_str).collect();
    let quantities: Vec<i64> = quantities.values().copied().collect();
    sqlx::query!(
        "insert into stock (sku, available, reserved)
         select taken.sku, 0, taken.quantity
         from unnest($1::text[], $2::bigint[]) as taken (sku, quantity)
         on conflict (sku) do update
         set available = greatest(stock.available - excluded.reserved, 0),
             reserved = stock.reserved + excluded.reserved",
        &skus as &[&str],
        &quantities
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Adds a SKU, unless it already exists.
pub async fn add(connection: &mut PgConnection, sku: &str, available: i64) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into stock (sku, available) values ($1, $2) on conflict do nothing",
        sku,
        available
    )
    .execute(connection)
    .await?;
    Ok(())
}
