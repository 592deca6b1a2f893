//! Store functions of the relay.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

/// One unpublished event.
pub(crate) struct Row {
    pub(crate) id: i64,
    pub(crate) event_id: Uuid,
    pub(crate) event_type: String,
    pub(crate) source: String,
    pub(crate) subject: Uuid,
    pub(crate) correlation_id: String,
    pub(crate) traceparent: Option<String>,
    pub(crate) payload: String,
    pub(crate) created_at: DateTime<Utc>,
}

/// The oldest unpublished rows of these shards. There is no cursor over ids, so rows of transactions
/// that commit late are found too.
pub(crate) async fn unpublished(
    connection: &mut PgConnection,
    shards: &[i16],
    rows_max: i64,
) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        "select id, event_id, event_type, source, subject, correlation_id, traceparent, payload,
                created_at
         from outbox
         where published_at is null and shard = any($1)
         order by id
         limit $2",
        shards,
        rows_max
    )
    .fetch_all(connection)
    .await
}

/// Marks rows of a batch as published. Their creation times limit the update to the right partitions.
pub(crate) async fn mark_published(
    connection: &mut PgConnection,
    ids: &[i64],
    batch: &[Row],
) -> sqlx::Result<()> {
    let ages = || batch.iter().map(|row| row.created_at);
    sqlx::query!(
        "update outbox set published_at = now()
         where id = any($1) and created_at between $2 and $3 and published_at is null",
        ids,
        ages().min(),
        ages().max()
    )
    .execute(connection)
    .await?;
    Ok(())
}
