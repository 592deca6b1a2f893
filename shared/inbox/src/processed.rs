//! Store functions for the table `processed_messages`. This table decides whether a message is a
//! duplicate.

use std::collections::HashSet;
use std::time::Duration;

use service_kit::UNPROTECTED;
use sqlx::PgConnection;
use uuid::Uuid;

/// Maximum number of rows that one [`reap`] deletes.
pub const REAP_ROWS_MAX: i64 = 1_000;

/// Result of recording a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Messages that this call recorded; they were not processed before.
    pub(crate) fresh: HashSet<Uuid>,
    /// Orders that a parked message blocks. None of their messages were recorded. They stay blocked
    /// until this transaction ends.
    pub(crate) blocked: HashSet<Uuid>,
}

/// Records the messages (id and order) as processed by the group, in the transaction of their
/// effect. Messages of blocked orders are left out. One statement does both, so parking costs the
/// other orders nothing.
///
/// Ids are inserted in sorted order. If two consumers briefly hold the same messages, one waits for
/// the other, and they do not deadlock.
pub(crate) async fn record(
    connection: &mut PgConnection,
    group: &str,
    mut messages: Vec<(Uuid, Uuid)>,
) -> sqlx::Result<Recorded> {
    if UNPROTECTED {
        // Every message counts as new.
        return Ok(Recorded {
            fresh: messages.into_iter().map(|(id, _)| id).collect(),
            blocked: HashSet::new(),
        });
    }
    messages.sort_unstable();
    let (ids, subjects): (Vec<Uuid>, Vec<Uuid>) = messages.into_iter().unzip();
    // The shared lock makes a redrive of the order wait until this transaction has added to the
    // queue. If the redrive came first and emptied the queue, the row is gone after the wait.
    let rows = sqlx::query!(
        r#"with blocked as materialized (
               select subject from parked_orders
               where consumer_group = $1 and subject = any($3)
               for key share
           ),
           recorded as (
               insert into processed_messages (consumer_group, message_id)
               select $1, message.id from unnest($2::uuid[], $3::uuid[]) as message (id, subject)
               where message.subject not in (select subject from blocked)
               on conflict do nothing
               returning message_id
           )
           select message_id as "id!", true as "fresh!" from recorded
           union all
           select subject, false from blocked"#,
        group,
        &ids,
        &subjects
    )
    .fetch_all(connection)
    .await?;
    let mut recorded = Recorded::default();
    for row in rows {
        let set = match row.fresh {
            true => &mut recorded.fresh,
            false => &mut recorded.blocked,
        };
        set.insert(row.id);
    }
    Ok(recorded)
}

/// Records one message, even if its order is blocked. Returns false if it was recorded before.
pub(crate) async fn record_one(
    connection: &mut PgConnection,
    group: &str,
    id: Uuid,
) -> sqlx::Result<bool> {
    let inserted = sqlx::query!(
        "insert into processed_messages (consumer_group, message_id) values ($1, $2)
         on conflict do nothing",
        group,
        id
    )
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

/// Removes messages that this same transaction has recorded, for a handler that could not use them yet: if
/// they are published again, they count as new.
pub async fn forget(connection: &mut PgConnection, group: &str, ids: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query!(
        "delete from processed_messages where consumer_group = $1 and message_id = any($2)",
        group,
        ids
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Removes a message that this same transaction has recorded.
pub(crate) async fn forget_one(
    connection: &mut PgConnection,
    group: &str,
    id: Uuid,
) -> sqlx::Result<()> {
    sqlx::query!(
        "delete from processed_messages where consumer_group = $1 and message_id = $2",
        group,
        id
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Deletes messages that were processed longer ago than this, the oldest first, at most
/// [`REAP_ROWS_MAX`]; returns how many. Concurrent reapers skip each other's rows.
pub async fn reap(connection: &mut PgConnection, older_than: Duration) -> sqlx::Result<u64> {
    let deleted = sqlx::query!(
        "delete from processed_messages where ctid = any(array(
            select ctid from processed_messages
            where processed_at < now() - make_interval(secs => $1)
            order by processed_at limit $2 for update skip locked))",
        older_than.as_secs_f64(),
        REAP_ROWS_MAX
    )
    .execute(connection)
    .await?;
    Ok(deleted.rows_affected())
}
