//! Opening the next payment attempt of a declined order.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::Status;

/// Opens the next attempt. `false` if the order has changed, is not declined, or has a cancellation
/// request.
pub async fn open_next(
    connection: &mut PgConnection,
    order_id: Uuid,
    version: i32,
    payment_method: &str,
) -> sqlx::Result<bool> {
    let updated = sqlx::query!(
        "update orders
         set status = $5, attempt = attempt + 1, payment_method = $3, version = version + 1,
             updated_at = now()
         where id = $1 and version = $2 and status = $4 and cancel_requested_at is null",
        order_id,
        version,
        payment_method,
        Status::Declined.as_str(),
        Status::Placed.as_str()
    )
    .execute(connection)
    .await?;
    Ok(updated.rows_affected() == 1)
}
