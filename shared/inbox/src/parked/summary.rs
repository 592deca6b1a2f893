//! Parked messages as operators see them in a list.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

/// The gauge counts no more parked messages than this.
pub(crate) const COUNT_ROWS_MAX: i64 = 10_000;

/// One parked message in the list.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Summary {
    pub(crate) id: i64,
    pub(crate) consumer_group: String,
    pub(crate) order_id: Option<Uuid>,
    pub(crate) message_id: Option<Uuid>,
    pub(crate) event_type: Option<String>,
    /// True for a failed message, false for one that waits behind it.
    pub(crate) failed: bool,
    pub(crate) cause: String,
    pub(crate) tries: i32,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) parked_at: DateTime<Utc>,
}

/// Parked messages of a group with ids above `after`, oldest first.
pub(crate) async fn page(
    connection: &mut PgConnection,
    group: &str,
    after: i64,
    rows_max: i64,
) -> sqlx::Result<Vec<Summary>> {
    sqlx::query_as!(
        Summary,
        r#"select id, consumer_group, subject as order_id, message_id, event_type,
                  failed, cause, tries, kafka_partition as partition,
                  kafka_offset as "offset", parked_at
           from parked_messages
           where id > $2 and consumer_group = $1
           order by id limit $3"#,
        group,
        after,
        rows_max
    )
    .fetch_all(connection)
    .await
}

/// The summary of one message.
pub(crate) async fn find(
    connection: &mut PgConnection,
    group: &str,
    id: i64,
) -> sqlx::Result<Option<Summary>> {
    let row = page(connection, group, id.saturating_sub(1), 1).await?;
    Ok(row.into_iter().find(|row| row.id == id))
}

/// Number of parked messages of all groups, up to [`COUNT_ROWS_MAX`].
pub(crate) async fn count(connection: &mut PgConnection) -> sqlx::Result<i64> {
    // In the order of the primary key, so that an index is read and not the messages.
    sqlx::query_scalar!(
        r#"select count(*) as "count!"
           from (select id from parked_messages order by id limit $1) as counted"#,
        COUNT_ROWS_MAX
    )
    .fetch_one(connection)
    .await
}
