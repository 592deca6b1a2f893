//! The table of processed messages: the authority on what has been done.

use std::collections::HashSet;
use std::time::Duration;

use sqlx::PgConnection;
use uuid::Uuid;

/// Most rows that one [`reap`] deletes.
pub const REAP_ROWS_MAX: i64 = 1_000;

/// What the ledger says of a batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Messages that were not recorded before, and are now.
    pub(crate) fresh: HashSet<Uuid>,
    /// Orders that are held up: none of their messages were recorded. They stay held up until this
    /// transaction ends.
    pub(crate) held: HashSet<Uuid>,
}

/// Records the messages (id and order) for the group, in the transaction of their effect, but for
/// those whose order is held up by a parked message. One statement, so that parking costs the others
/// nothing.
///
/// Ids are inserted in order, so that two consumers which briefly hold the same messages wait for
/// each other instead of deadlocking.
pub(crate) async fn record(
    connection: &mut PgConnection,
    group: &str,
    mut messages: Vec<(Uuid, Uuid)>,
) -> sqlx::Result<Recorded> {
    messages.sort_unstable();
    let (ids, subjects): (Vec<Uuid>, Vec<Uuid>) = messages.into_iter().unzip();
    // The lock makes a redrive of the order wait for what is queued behind its back; and if the
    // redrive was first and has emptied the queue, the row is gone when the wait is over.
    let rows = sqlx::query!(
        r#"with held as materialized (
               select subject from parked_orders
               where consumer_group = $1 and subject = any($3)
               for key share
           ),
           recorded as (
               insert into processed_messages (consumer_group, message_id)
               select $1, message.id from unnest($2::uuid[], $3::uuid[]) as message (id, subject)
               where message.subject not in (select subject from held)
               on conflict do nothing
               returning message_id
           )
           select message_id as "id!", true as "fresh!" from recorded
           union all
           select subject, false from held"#,
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
            false => &mut recorded.held,
        };
        set.insert(row.id);
    }
    Ok(recorded)
}

/// Records one message whatever holds its order up; false if it was recorded before.
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

/// Takes back what this transaction has recorded.
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

/// Forgets messages that were processed longer ago than this, the oldest first, at most
/// [`REAP_ROWS_MAX`]; returns how many. Several reapers at once step around each other's rows.
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
