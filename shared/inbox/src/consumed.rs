//! Store functions for the table `consumed_positions`: where in the topic a group has been.

use std::collections::BTreeMap;

use sqlx::PgConnection;
use uuid::Uuid;

/// The offset of a message in its partition, and the id of the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) offset: i64,
    pub(crate) event_id: Uuid,
}

/// The recorded marks of these partitions.
pub(crate) async fn load(
    connection: &mut PgConnection,
    group: &str,
    topic: &str,
    partitions: &[i32],
) -> sqlx::Result<BTreeMap<i32, Mark>> {
    let rows = sqlx::query!(
        "select kafka_partition, kafka_offset, event_id from consumed_positions
         where consumer_group = $1 and topic = $2 and kafka_partition = any($3)",
        group,
        topic,
        partitions
    )
    .fetch_all(connection)
    .await?;
    let mark = |offset, event_id| Mark { offset, event_id };
    Ok(rows
        .into_iter()
        .map(|row| (row.kafka_partition, mark(row.kafka_offset, row.event_id)))
        .collect())
}

/// Records the marks. The order of the partitions keeps two consumers that hold the same ones from a
/// deadlock.
pub(crate) async fn save(
    connection: &mut PgConnection,
    group: &str,
    topic: &str,
    marks: &BTreeMap<i32, Mark>,
) -> sqlx::Result<()> {
    let partitions: Vec<i32> = marks.keys().copied().collect();
    let offsets: Vec<i64> = marks.values().map(|mark| mark.offset).collect();
    let ids: Vec<Uuid> = marks.values().map(|mark| mark.event_id).collect();
    sqlx::query!(
        "insert into consumed_positions
            (consumer_group, topic, kafka_partition, kafka_offset, event_id)
         select $1, $2, mark.kafka_partition, mark.kafka_offset, mark.event_id
         from unnest($3::integer[], $4::bigint[], $5::uuid[])
            as mark (kafka_partition, kafka_offset, event_id)
         on conflict (consumer_group, topic, kafka_partition)
         do update set kafka_offset = excluded.kafka_offset, event_id = excluded.event_id",
        group,
        topic,
        &partitions,
        &offsets,
        &ids
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Removes the mark of a partition that is read from its start.
pub(crate) async fn forget(
    connection: &mut PgConnection,
    group: &str,
    topic: &str,
    partition: i32,
) -> sqlx::Result<()> {
    sqlx::query!(
        "delete from consumed_positions
         where consumer_group = $1 and topic = $2 and kafka_partition = $3",
        group,
        topic,
        partition
    )
    .execute(connection)
    .await?;
    Ok(())
}
