//! Gives pending charges and refunds their final status.
//!
//! Rows that another process settles at the same time are skipped. Each statement returns the new
//! statuses, one per settled row.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

pub async fn settle_charges(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
    limit: i64,
) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        "update charges set status = outcome
         where id = any(array(
             select id from charges
             where status = 'pending' and settles_at <= $1
             order by settles_at limit $2
             for update skip locked
         ))
         returning status",
        now,
        limit,
    )
    .fetch_all(connection)
    .await
}

pub async fn settle_refunds(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
    limit: i64,
) -> sqlx::Result<Vec<String>> {
    sqlx::query_scalar!(
        "update refunds set status = outcome
         where id = any(array(
             select id from refunds
             where status = 'pending' and settles_at <= $1
             order by settles_at limit $2
             for update skip locked
         ))
         returning status",
        now,
        limit,
    )
    .fetch_all(connection)
    .await
}
