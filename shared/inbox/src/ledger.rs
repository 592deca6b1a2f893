//! The table of processed messages: the authority on what has been done.

use std::collections::HashSet;

use sqlx::PgConnection;
use uuid::Uuid;

/// Records the messages for the group, in the transaction of their effect, and returns those that
/// were not recorded before. Ids are inserted in order, so that two consumers which briefly hold the
/// same messages wait for each other instead of deadlocking.
pub(crate) async fn record(
    connection: &mut PgConnection,
    group: &str,
    mut ids: Vec<Uuid>,
) -> sqlx::Result<HashSet<Uuid>> {
    ids.sort_unstable();
    let fresh = sqlx::query_scalar!(
        "insert into processed_messages (consumer_group, message_id)
         select $1, id from unnest($2::uuid[]) as id
         on conflict do nothing
         returning message_id",
        group,
        &ids
    )
    .fetch_all(connection)
    .await?;
    Ok(fresh.into_iter().collect())
}
