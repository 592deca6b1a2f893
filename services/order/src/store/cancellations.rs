//! Recording a client's request to cancel an order.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::Status;

/// A cancellation request, as the order records it.
pub struct CancellationRequest {
    pub order_id: Uuid,
    /// The version before the request.
    pub version: i32,
    /// The status after the request.
    pub status: Status,
    /// Added to the version: one for the request, plus the steps to the new status.
    pub steps: i32,
}

/// Records the request. `false` if the order has changed, or has a cancellation request already.
pub async fn record(
    connection: &mut PgConnection,
    request: &CancellationRequest,
) -> sqlx::Result<bool> {
    let updated = sqlx::query!(
        "update orders
         set cancel_requested_at = now(), status = $3, version = version + $4, updated_at = now()
         where id = $1 and version = $2 and cancel_requested_at is null",
        request.order_id,
        request.version,
        request.status.as_str(),
        request.steps
    )
    .execute(connection)
    .await?;
    Ok(updated.rows_affected() == 1)
}
