//! One order as operators see it: rows with the transactions that last changed them.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

pub struct OrderRow {
    pub principal_id: String,
    pub reference: Option<String>,
    pub status: String,
    pub version: i32,
    pub attempt: i32,
    pub reopened: i32,
    pub amount: i64,
    pub currency: String,
    pub payment_method: String,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    pub cancel_requested_at: Option<DateTime<Utc>>,
    pub commit: String,
}

pub async fn order(connection: &mut PgConnection, id: Uuid) -> sqlx::Result<Option<OrderRow>> {
    sqlx::query_as!(
        OrderRow,
        r#"select principal_id, reference, status, version, attempt, reopened, amount, currency,
                  payment_method, created_at, updated_at, cancel_requested_at,
                  xmin::text as "commit!"
           from orders where id = $1"#,
        id
    )
    .fetch_optional(connection)
    .await
}

pub struct ItemRow {
    pub sku: String,
    pub quantity: i32,
    pub unit_price: i64,
    pub commit: String,
}

pub async fn items(
    connection: &mut PgConnection,
    id: Uuid,
    limit: i64,
) -> sqlx::Result<Vec<ItemRow>> {
    sqlx::query_as!(
        ItemRow,
        r#"select sku, quantity, unit_price, xmin::text as "commit!"
           from order_items where order_id = $1 order by line limit $2"#,
        id,
        limit
    )
    .fetch_all(connection)
    .await
}
