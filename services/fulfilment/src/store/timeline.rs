//! The shipment of one order as operators see it.

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

pub struct ShipmentRow {
    pub attempt: i32,
    pub lines: Value,
    pub status: String,
    pub reason: Option<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    /// The transaction that last changed the row.
    pub commit: String,
}

pub async fn shipment(
    connection: &mut PgConnection,
    order_id: Uuid,
) -> sqlx::Result<Option<ShipmentRow>> {
    sqlx::query_as!(
        ShipmentRow,
        r#"select attempt, lines, status, reason, created_at, updated_at, xmin::text as "commit!"
           from shipments where order_id = $1"#,
        order_id
    )
    .fetch_optional(connection)
    .await
}

pub struct StockRow {
    pub sku: String,
    pub available: i64,
    pub reserved: i64,
}

pub async fn stock(connection: &mut PgConnection, skus: &[String]) -> sqlx::Result<Vec<StockRow>> {
    sqlx::query_as!(
        StockRow,
        "select sku, available, reserved from stock where sku = any($1)",
        skus
    )
    .fetch_all(connection)
    .await
}
