//! Burning keys.
//!
//! A burnt key is the very row that a charge under the key would have to write. Whoever comes
//! second, here or in another process, waits for the first at the primary key and then finds its
//! row. So each step is one statement that decides under that row's lock, never a look and then a
//! write.

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgConnection;

use crate::domain::answer::Answer;

/// Gives the key this answer for every charge, for a window from now. `false` if something stands
/// there that must stay.
///
/// A row with a charge is never overwritten, not even past its window: the charge stands for ever.
/// A 5xx without a charge promised nothing and goes; so does whatever has expired. A burnt key is
/// burnt anew, so that each time a whole window is promised.
pub async fn burn(
    connection: &mut PgConnection,
    key: &str,
    answer: &Answer,
    now: DateTime<Utc>,
    window: TimeDelta,
) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "insert into requests as present
             (key, operation, fingerprint, status, body, created_at, expires_at)
         values ($1, 'cancellation', '', $2, $3, $4, $5)
         on conflict (key) do update
         set operation = excluded.operation, fingerprint = excluded.fingerprint,
             status = excluded.status, body = excluded.body,
             created_at = excluded.created_at, expires_at = excluded.expires_at
         where present.charge_id is null
             and (present.expires_at <= excluded.created_at
                  or present.operation = 'cancellation'
                  or (present.operation = 'charge' and present.status >= 500))",
        key,
        i16::try_from(answer.status).unwrap_or(i16::MAX),
        answer.body,
        now,
        now + window,
    )
    .execute(connection)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// A decline refuses a charge just as well as a burnt key does, so it stays, for a window from now.
/// `false` if the key was not declined.
pub async fn keep_decline(
    connection: &mut PgConnection,
    key: &str,
    now: DateTime<Utc>,
    window: TimeDelta,
) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "update requests set expires_at = $3
         where key = $1 and expires_at > $2
             and operation = 'charge' and charge_id is null and status < 500",
        key,
        now,
        now + window,
    )
    .execute(connection)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Whether the key belongs to a refund.
pub async fn is_of_refund(
    connection: &mut PgConnection,
    key: &str,
    now: DateTime<Utc>,
) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select exists (
               select from requests where key = $1 and expires_at > $2 and operation = 'refund'
           ) as "exists!""#,
        key,
        now,
    )
    .fetch_one(connection)
    .await
}
