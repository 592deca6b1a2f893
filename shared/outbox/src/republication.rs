//! The republication that is in progress, if there is one.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

#[derive(Clone, Debug)]
pub(crate) struct Republication {
    pub(crate) since: DateTime<Utc>,
    /// Events created later have not been published before the loss and need no mark.
    pub(crate) until: DateTime<Utc>,
    /// Relays may publish events that were created before this time.
    pub(crate) ready_until: DateTime<Utc>,
    pub(crate) republished: i64,
}

pub(crate) async fn find(connection: &mut PgConnection) -> sqlx::Result<Option<Republication>> {
    sqlx::query_as!(
        Republication,
        "select since, until, ready_until, republished from outbox_republication"
    )
    .fetch_optional(connection)
    .await
}

/// Begins a republication. One that is in progress begins again, with the earlier start of the two.
pub(crate) async fn begin(
    connection: &mut PgConnection,
    since: DateTime<Utc>,
    reason: &str,
) -> sqlx::Result<()> {
    sqlx::query!(
        "insert into outbox_republication as known (since, until, ready_until, reason)
         values ($1, clock_timestamp(), $1, $2)
         on conflict (singleton) do update
         set since = least(known.since, excluded.since),
             ready_until = least(known.since, excluded.since),
             until = excluded.until",
        since,
        reason
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Lets relays publish events that were created before `ready_until`.
pub(crate) async fn advance(
    connection: &mut PgConnection,
    ready_until: DateTime<Utc>,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update outbox_republication set ready_until = greatest(ready_until, $1)",
        ready_until
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Adds to the number of events that were marked for publishing again.
pub(crate) async fn count(connection: &mut PgConnection, marked: u64) -> sqlx::Result<()> {
    sqlx::query!(
        "update outbox_republication set republished = republished + $1",
        i64::try_from(marked).unwrap_or(i64::MAX)
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Ends the republication, unless another call has begun it again. Returns whether it ended.
pub(crate) async fn finish(
    connection: &mut PgConnection,
    done: &Republication,
) -> sqlx::Result<bool> {
    let ended = sqlx::query!(
        "delete from outbox_republication where since = $1 and until = $2",
        done.since,
        done.until
    )
    .execute(connection)
    .await?;
    Ok(ended.rows_affected() > 0)
}
