//! The next payment attempt of an order whose last one took no money: opening it, and who has to pay it.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::Status;

/// The customer opens the next attempt. `false` if the order has changed, is neither declined nor failed,
/// or has a cancellation request.
pub async fn open_next(
    connection: &mut PgConnection,
    order_id: Uuid,
    version: i32,
    payment_method: &str,
) -> sqlx::Result<bool> {
    let updated = sqlx::query!(
        "update orders
         set status = $6, attempt = attempt + 1, payment_method = $3, version = version + 1,
             updated_at = now()
         where id = $1 and version = $2 and status in ($4, $5) and cancel_requested_at is null",
        order_id,
        version,
        payment_method,
        Status::Declined.as_str(),
        Status::Failed.as_str(),
        Status::Placed.as_str()
    )
    .execute(connection)
    .await?;
    Ok(updated.rows_affected() == 1)
}

/// An order whose next attempt this service opened automatically.
#[derive(Debug)]
pub struct Reopened {
    pub id: Uuid,
    pub attempt: i32,
    pub principal_id: String,
    pub customer_id: String,
    pub amount: i64,
    pub currency: String,
    pub payment_method: String,
}

/// Opens the next attempt of locked, failed orders, with the same payment method.
pub async fn reopen(
    connection: &mut PgConnection,
    order_ids: &[Uuid],
) -> sqlx::Result<Vec<Reopened>> {
    sqlx::query_as!(
        Reopened,
        "update orders
         set status = $3, attempt = attempt + 1, reopened = reopened + 1, version = version + 1,
             updated_at = now()
         where id = any($1) and status = $2 and cancel_requested_at is null
         returning id, attempt, principal_id, customer_id, amount, currency, payment_method",
        order_ids,
        Status::Failed.as_str(),
        Status::Placed.as_str()
    )
    .fetch_all(connection)
    .await
}

/// Who owes how much for an order.
#[derive(Debug)]
pub struct Payer {
    pub order_id: Uuid,
    pub customer_id: String,
    pub amount: i64,
    pub currency: String,
}

pub async fn payers(connection: &mut PgConnection, order_ids: &[Uuid]) -> sqlx::Result<Vec<Payer>> {
    sqlx::query_as!(
        Payer,
        "select id as order_id, customer_id, amount, currency from orders where id = any($1)",
        order_ids
    )
    .fetch_all(connection)
    .await
}
