//! Where delivered events are in the topic. The positions prove later whether the broker still has
//! what it acknowledged.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use topic_log::Position;
use uuid::Uuid;

use crate::store::Row;

/// A row that the broker has acknowledged.
pub(crate) struct Delivered<'a> {
    pub(crate) row: &'a Row,
    pub(crate) position: Position,
}

/// The last event that was delivered to a Kafka partition in one minute.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    pub(crate) minute: DateTime<Utc>,
    pub(crate) event_id: Uuid,
    pub(crate) position: Position,
    pub(crate) oldest_created_at: DateTime<Utc>,
}

/// Records the last delivered event of each Kafka partition. Within a minute the highest offset stays:
/// relays of several replicas record in any order, and a log that lost data begins at a lower one, which
/// must not hide the loss.
pub(crate) async fn record(
    connection: &mut PgConnection,
    delivered: &[Delivered<'_>],
) -> sqlx::Result<()> {
    let last = last_per_partition(delivered);
    let partitions: Vec<i32> = last.keys().copied().collect();
    let offsets: Vec<i64> = last.values().map(|(it, _)| it.position.offset).collect();
    let events: Vec<Uuid> = last.values().map(|(it, _)| it.row.event_id).collect();
    let oldest: Vec<DateTime<Utc>> = last.values().map(|(_, oldest)| *oldest).collect();
    sqlx::query!(
        "insert into outbox_positions as known
             (kafka_partition, minute, kafka_offset, event_id, oldest_created_at)
         select kafka_partition, date_trunc('minute', now()), kafka_offset, event_id, oldest
         from unnest($1::integer[], $2::bigint[], $3::uuid[], $4::timestamptz[])
             as last (kafka_partition, kafka_offset, event_id, oldest)
         order by kafka_partition
         on conflict (kafka_partition, minute) do update
         set kafka_offset = greatest(known.kafka_offset, excluded.kafka_offset),
             event_id = case when excluded.kafka_offset > known.kafka_offset
                             then excluded.event_id else known.event_id end,
             oldest_created_at = least(known.oldest_created_at, excluded.oldest_created_at)",
        &partitions,
        &offsets,
        &events,
        &oldest
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The delivered event with the highest offset of each partition, and the creation time of the oldest.
fn last_per_partition<'a, 'b>(
    delivered: &'a [Delivered<'b>],
) -> BTreeMap<i32, (&'a Delivered<'b>, DateTime<Utc>)> {
    let mut last = BTreeMap::<i32, (&Delivered<'_>, DateTime<Utc>)>::new();
    for it in delivered {
        let entry = last
            .entry(it.position.partition)
            .or_insert((it, it.row.created_at));
        entry.1 = entry.1.min(it.row.created_at);
        if it.position.offset > entry.0.position.offset {
            entry.0 = it;
        }
    }
    last
}

/// The Kafka partitions that have checkpoints.
pub(crate) async fn partitions(connection: &mut PgConnection) -> sqlx::Result<Vec<i32>> {
    // One index look-up per partition; `distinct` would read every checkpoint.
    sqlx::query_scalar!(
        r#"with recursive known as (
               (select kafka_partition from outbox_positions order by kafka_partition limit 1)
               union all
               select (select next.kafka_partition from outbox_positions as next
                       where next.kafka_partition > known.kafka_partition
                       order by next.kafka_partition limit 1)
               from known where known.kafka_partition is not null
           )
           select kafka_partition as "kafka_partition!" from known
           where kafka_partition is not null"#
    )
    .fetch_all(connection)
    .await
}

/// The newest checkpoints of a partition, at most `rows_max`, newest first.
pub(crate) async fn newest(
    connection: &mut PgConnection,
    kafka_partition: i32,
    rows_max: i64,
) -> sqlx::Result<Vec<Checkpoint>> {
    let rows = sqlx::query!(
        "select minute, kafka_offset, event_id, oldest_created_at from outbox_positions
         where kafka_partition = $1 order by minute desc limit $2",
        kafka_partition,
        rows_max
    )
    .fetch_all(connection)
    .await?;
    let checkpoints = rows.into_iter().map(|row| Checkpoint {
        minute: row.minute,
        event_id: row.event_id,
        position: Position {
            partition: kafka_partition,
            offset: row.kafka_offset,
        },
        oldest_created_at: row.oldest_created_at,
    });
    Ok(checkpoints.collect())
}

/// Deletes a checkpoint whose event the broker has lost, unless a relay has recorded a newer event since.
pub(crate) async fn forget(
    connection: &mut PgConnection,
    checkpoint: &Checkpoint,
) -> sqlx::Result<()> {
    sqlx::query!(
        "delete from outbox_positions
         where kafka_partition = $1 and minute = $2 and event_id = $3",
        checkpoint.position.partition,
        checkpoint.minute,
        checkpoint.event_id
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Deletes checkpoints older than the outbox itself: their events can no longer be published again.
pub(crate) async fn reap(
    connection: &mut PgConnection,
    older_than: DateTime<Utc>,
) -> sqlx::Result<u64> {
    let mut deleted = 0;
    for kafka_partition in partitions(connection).await? {
        let done = sqlx::query!(
            "delete from outbox_positions where kafka_partition = $1 and minute < $2",
            kafka_partition,
            older_than
        )
        .execute(&mut *connection)
        .await?;
        deleted += done.rows_affected();
    }
    Ok(deleted)
}
