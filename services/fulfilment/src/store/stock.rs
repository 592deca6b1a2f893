//! What is on the shelves.

use std::collections::BTreeMap;

use sqlx::PgConnection;

/// Locks these SKUs, in the order of their names, so that two batches never wait crosswise. A SKU
/// that does not exist is not in the answer.
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

/// Moves what was given out from available to reserved; the table's check refuses to go below zero.
pub async fn reserve(
    connection: &mut PgConnection,
    taken: &BTreeMap<String, i64>,
) -> sqlx::Result<()> {
    let skus: Vec<&str> = taken.keys().map(String::as_str).collect();
    let quantities: Vec<i64> = taken.values().copied().collect();
    sqlx::query!(
        "update stock
         set available = available - taken.quantity, reserved = reserved + taken.quantity
         from unnest($1::text[], $2::bigint[]) as taken (sku, quantity)
         where stock.sku = taken.sku",
        &skus as &[&str],
        &quantities
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Puts a SKU on the shelf, unless it is there already.
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
