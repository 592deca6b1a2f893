//! Cancelling keys.
//!
//! A cancelled key is the same row that a charge under the key must write. So the primary key
//! decides between the two, even across processes: the second waits for the first and then
//! finds its row. For this reason each step is one statement that decides under the row lock, never
//! a read followed by a write.

use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::api_response::ApiResponse;
use crate::domain::key_use::KeyUse;

/// Stores this response for every charge under the key, for one window from now. Returns `false` if
/// the key has a row that must stay.
///
/// A row with a charge is never overwritten, not even after its window: the charge exists. The
/// exception is a charge that has failed, because it took no money and never will. A 5xx without a
/// charge guarantees nothing and is overwritten, and so is an expired row. A repeated cancellation is
/// written again, so that each one lasts a whole window.
pub async fn cancel(
    connection: &mut PgConnection,
    key: &str,
    failed_charges: &[Uuid],
    response: &ApiResponse,
    now: DateTime<Utc>,
    window: TimeDelta,
) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "insert into requests as present
             (key, operation, fingerprint, status, body, created_at, expires_at)
         values ($1, $2, '', $3, $4, $5, $6)
         on conflict (key) do update
         set operation = excluded.operation, fingerprint = excluded.fingerprint,
             status = excluded.status, body = excluded.body, charge_id = null,
             created_at = excluded.created_at, expires_at = excluded.expires_at
         where present.charge_id = any($8)
             or (present.charge_id is null
                 and (present.expires_at <= excluded.created_at
                      or present.operation = excluded.operation
                      or (present.operation = $7 and present.status >= 500)))",
        key,
        KeyUse::Cancellation.as_str(),
        i16::try_from(response.status).unwrap_or(i16::MAX),
        response.body,
        now,
        now + window,
        KeyUse::Charge.as_str(),
        failed_charges,
    )
    .execute(connection)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Keeps a stored decline for one window from now: it prevents charges just as a cancelled key
/// does. Returns `false` if the key was not declined.
pub async fn extend_decline(
    connection: &mut PgConnection,
    key: &str,
    now: DateTime<Utc>,
    window: TimeDelta,
) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "update requests set expires_at = $3
         where key = $1 and expires_at > $2
             and operation = $4 and charge_id is null and status < 500",
        key,
        now,
        now + window,
        KeyUse::Charge.as_str(),
    )
    .execute(connection)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Whether the key belongs to a refund.
pub async fn is_refund_key(
    connection: &mut PgConnection,
    key: &str,
    now: DateTime<Utc>,
) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select exists (
               select from requests where key = $1 and expires_at > $2 and operation = $3
           ) as "exists!""#,
        key,
        now,
        KeyUse::Refund.as_str(),
    )
    .fetch_one(connection)
    .await
}
