//! Where delivered events are in the topic. The positions prove later whether the broker still has
//! what it acknowledged.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use topic_log::Position;
use uuid::Uuid;

use crate::store::Row;

/// A row that the broker has acknowledged.
pub(crate) struct Delivered {
    pub(crate) row: Row,
    pub(crate) position: Position,
}

/// How long a producer updates the same checkpoints.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// A period of one minute in which a producer updates its checkpoints. It starts with a delivery; the first delivery after
/// its end starts the next.
///
/// No two producers share a period: the time of its first record identifies it. Otherwise a producer that connects to a log
/// that lost data would replace the checkpoint that proves the loss. A relay takes a new producer whenever it has lost all
/// brokers, and when a broker does not expect the producer's next sequence number.
#[derive(Debug, Default)]
pub(crate) struct Minute(Option<(DateTime<Utc>, Instant)>);

impl Minute {
    /// `None` before the first delivery of a minute.
    pub(crate) fn current(&self) -> Option<DateTime<Utc>> {
        let (minute, began) = self.0?;
        (began.elapsed() < MINUTE).then_some(minute)
    }

    /// Deliveries were recorded in this minute.
    pub(crate) fn recorded(&mut self, minute: DateTime<Utc>) {
        if self.current() != Some(minute) {
            self.0 = Some((minute, Instant::now()));
        }
    }
}

/// The last event that one producer delivered to a Kafka partition in one minute.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    /// When the minute began.
    pub(crate) minute: DateTime<Utc>,
    pub(crate) event_id: Uuid,
    pub(crate) position: Position,
    pub(crate) oldest_created_at: DateTime<Utc>,
    /// When the guard read it, on the clock of the database.
    pub(crate) read_at: DateTime<Utc>,
}

/// The last delivered event of each Kafka partition, in the order of the partitions, so that relays of
/// several replicas lock the rows in the same order.
#[derive(Debug, Default)]
pub(crate) struct LastPositions {
    pub(crate) partitions: Vec<i32>,
    pub(crate) offsets: Vec<i64>,
    pub(crate) event_ids: Vec<Uuid>,
    /// The creation time of the oldest event of the batch in that partition.
    pub(crate) oldest_created_at: Vec<DateTime<Utc>>,
}

impl LastPositions {
    pub(crate) fn of(delivered: &[Delivered]) -> Self {
        let mut last = BTreeMap::<i32, (&Delivered, DateTime<Utc>)>::new();
        for it in delivered {
            let created_at = it.row.created_at;
            let entry = last
                .entry(it.position.partition)
                .or_insert((it, created_at));
            entry.1 = entry.1.min(created_at);
            if it.position.offset > entry.0.position.offset {
                entry.0 = it;
            }
        }
        let mut positions = Self::default();
        for (partition, (it, oldest)) in last {
            positions.partitions.push(partition);
            positions.offsets.push(it.position.offset);
            positions.event_ids.push(it.row.event_id);
            positions.oldest_created_at.push(oldest);
        }
        positions
    }
}

/// The Kafka partitions that have checkpoints.
pub(crate) async fn partitions(connection: &mut PgConnection) -> sqlx::Result<Vec<i32>> {
    // One index lookup per partition; `distinct` would read every checkpoint.
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
        r#"select minute, kafka_offset, event_id, oldest_created_at, clock_timestamp() as "read_at!"
           from outbox_positions
           where kafka_partition = $1 order by minute desc limit $2"#,
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
        read_at: row.read_at,
    });
    Ok(checkpoints.collect())
}

/// When the event of this checkpoint was last published; `subject` is its order. `None` while it waits to be published
/// again.
pub(crate) async fn published_at(
    connection: &mut PgConnection,
    checkpoint: &Checkpoint,
    subject: Uuid,
) -> sqlx::Result<Option<DateTime<Utc>>> {
    sqlx::query_scalar!(
        "select max(published_at) from outbox
         where subject = $1 and published_at is not null and event_id = $2 and created_at >= $3",
        subject,
        checkpoint.event_id,
        // No event of the checkpoint is older, so older partitions are not read.
        checkpoint.oldest_created_at
    )
    .fetch_one(connection)
    .await
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
