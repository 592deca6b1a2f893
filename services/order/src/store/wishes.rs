//! What the owner of an order may change about it: call it off, or pay again.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::Status;

/// The wish that an order should not ship, as the order is to record it.
pub struct CancelWish {
    pub order_id: Uuid,
    /// The version that the wish was derived from.
    pub version: i32,
    /// The state from now on.
    pub status: Status,
    /// What the wish, and the change of state if there is one, add to the version.
    pub steps: i32,
}

/// Records the wish; `false` if the order is not what it was, or the wish is there already.
pub async fn request_cancel(
    connection: &mut PgConnection,
    wish: &CancelWish,
) -> sqlx::Result<bool> {
    let updated = sqlx::query!(
        "update orders
         set cancel_requested_at = now(), status = $3, version = version + $4, updated_at = now()
         where id = $1 and version = $2 and cancel_requested_at is null",
        wish.order_id,
        wish.version,
        wish.status.as_str(),
        wish.steps
    )
    .execute(connection)
    .await?;
    Ok(updated.rows_affected() == 1)
}

/// Opens the next payment attempt of a declined order; `false` if it is not what it was.
pub async fn open_attempt(
    connection: &mut PgConnection,
    order_id: Uuid,
    version: i32,
    payment_method: &str,
) -> sqlx::Result<bool> {
    let updated = sqlx::query!(
        "update orders
         set status = 'placed', attempt = attempt + 1, payment_method = $3, version = version + 1,
             updated_at = now()
         where id = $1 and version = $2 and status = 'declined' and cancel_requested_at is null",
        order_id,
        version,
        payment_method
    )
    .execute(connection)
    .await?;
    Ok(updated.rows_affected() == 1)
}
