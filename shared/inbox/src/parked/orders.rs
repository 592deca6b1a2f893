//! Orders that a parked message blocks, one row each in `parked_orders`. The row is also the lock
//! between consumers, which add to the order's queue, and redrives, which empty it.

use sqlx::PgConnection;
use uuid::Uuid;

/// Blocks the order, and keeps redrives out until the transaction ends.
pub(crate) async fn block(
    connection: &mut PgConnection,
    group: &str,
    subject: Uuid,
) -> sqlx::Result<()> {
    // An update, not `do nothing`: it locks an existing row, and inserts the row again if a redrive
    // deletes it while this statement waits.
    sqlx::query!(
        "insert into parked_orders (consumer_group, subject) values ($1, $2)
         on conflict (consumer_group, subject) do update set subject = excluded.subject",
        group,
        subject
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Waits for consumers that are adding to the order's queue, and keeps other consumers out until
/// the transaction ends. Returns false if the order is not, or no longer, blocked.
pub(crate) async fn lock(
    connection: &mut PgConnection,
    group: &str,
    subject: Uuid,
) -> sqlx::Result<bool> {
    let row = sqlx::query!(
        "select subject from parked_orders where consumer_group = $1 and subject = $2 for update",
        group,
        subject
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.is_some())
}

/// Unblocks the order. A foreign key makes this fail while its queue is not empty.
pub(crate) async fn release(
    connection: &mut PgConnection,
    group: &str,
    subject: Uuid,
) -> sqlx::Result<()> {
    sqlx::query!(
        "delete from parked_orders where consumer_group = $1 and subject = $2",
        group,
        subject
    )
    .execute(connection)
    .await?;
    Ok(())
}
