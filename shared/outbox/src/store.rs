//! Store functions of the relay.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::floors::Floors;
use crate::positions::{Delivered, LastPositions, Minute};

/// One unpublished event.
pub(crate) struct Row {
    pub(crate) id: i64,
    pub(crate) shard: i16,
    pub(crate) event_id: Uuid,
    pub(crate) event_type: String,
    pub(crate) source: String,
    pub(crate) subject: Uuid,
    pub(crate) correlation_id: String,
    pub(crate) traceparent: Option<String>,
    pub(crate) payload: String,
    pub(crate) created_at: DateTime<Utc>,
    /// Published before, and now again.
    pub(crate) republished: bool,
}

/// The oldest unpublished rows above the floors, at most `rows_max` per shard and only those created
/// before `until`. The rows of one shard are in the order of their ids.
///
/// Each shard is a range of the index `outbox_unpublished`, so the statement reads what it returns,
/// regardless of what waits in other shards. See [`queue_key`].
pub(crate) async fn unpublished(
    connection: &mut PgConnection,
    floors: &Floors,
    until: Option<DateTime<Utc>>,
    rows_max: i64,
) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        r#"select row.id as "id!", row.shard as "shard!", row.event_id as "event_id!",
                  row.event_type as "event_type!", row.source as "source!",
                  row.subject as "subject!", row.correlation_id as "correlation_id!",
                  row.traceparent, row.payload as "payload!", row.created_at as "created_at!",
                  row.republished as "republished!"
           from unnest($1::bigint[], $2::bigint[]) as mine (floor, ceiling)
           cross join lateral (
               select id, shard, event_id, event_type, source, subject, correlation_id,
                      traceparent, payload, created_at, republished
               from outbox
               where published_at is null and not held
                 and (shard::bigint << 48) + id > mine.floor
                 and (shard::bigint << 48) + id < mine.ceiling
                 and created_at >= $3 and created_at < $4
               order by (shard::bigint << 48) + id
               limit $5
           ) as row"#,
        &floors.floor_keys(),
        &floors.ceiling_keys(),
        floors.since(),
        until.unwrap_or(END_OF_TIME),
        rows_max
    )
    .fetch_all(connection)
    .await
}

/// The rows of a batch that is being delivered.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    count: i64,
    /// The highest key of each shard.
    highest: BTreeMap<i16, i64>,
}

impl InFlight {
    pub(crate) fn of(rows: &[Row]) -> Self {
        let mut in_flight = Self::default();
        for row in rows {
            in_flight.count += 1;
            let highest = in_flight.highest.entry(row.shard).or_default();
            *highest = row.queue_key().max(*highest);
        }
        in_flight
    }

    /// Where the rows in flight end in each shard: its floor, if there are none.
    fn ends(&self, floors: &Floors) -> Vec<i64> {
        let floor_keys = floors.floor_keys().into_iter();
        let ends = floors.shards().into_iter().zip(floor_keys);
        ends.map(|(shard, floor)| self.highest.get(&shard).copied().unwrap_or(floor))
            .collect()
    }
}

/// The oldest unpublished rows after those in flight, like [`unpublished`]. Returns none if any other row
/// is below them: it committed late, and its order may have a later event.
///
/// One snapshot counts the rows below and reads those above. So if the snapshot has an event, it also has the
/// earlier ones of its order.
pub(crate) async fn unpublished_after(
    connection: &mut PgConnection,
    floors: &Floors,
    in_flight: &InFlight,
    rows_max: i64,
) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as!(
        Row,
        r#"select row.id as "id!", row.shard as "shard!", row.event_id as "event_id!",
                  row.event_type as "event_type!", row.source as "source!",
                  row.subject as "subject!", row.correlation_id as "correlation_id!",
                  row.traceparent, row.payload as "payload!", row.created_at as "created_at!",
                  row.republished as "republished!"
           from unnest($2::bigint[], $3::bigint[]) as mine (in_flight_end, ceiling)
           cross join lateral (
               select id, shard, event_id, event_type, source, subject, correlation_id,
                      traceparent, payload, created_at, republished
               from outbox
               where published_at is null and not held
                 and (shard::bigint << 48) + id > mine.in_flight_end
                 and (shard::bigint << 48) + id < mine.ceiling
                 and created_at >= $4
               order by (shard::bigint << 48) + id
               limit $5
           ) as row
           where $6::bigint = (
               select count(*)
               from unnest($1::bigint[], $2::bigint[]) as below (floor, in_flight_end)
               cross join lateral (
                   select from outbox
                   where published_at is null and not held
                     and (shard::bigint << 48) + id > below.floor
                     and (shard::bigint << 48) + id <= below.in_flight_end
                     and created_at >= $4
                   order by (shard::bigint << 48) + id
                   limit $6::bigint + 1
               ) as waiting
           )"#,
        &floors.floor_keys(),
        &in_flight.ends(floors),
        &floors.ceiling_keys(),
        floors.since(),
        rows_max,
        in_flight.count
    )
    .fetch_all(connection)
    .await
}

/// Later than any event.
const END_OF_TIME: DateTime<Utc> = DateTime::from_timestamp(253_402_300_800, 0).unwrap();

/// The position of a row in the queue, as the index `outbox_unpublished` computes it.
pub(crate) fn queue_key(shard: i16, id: i64) -> i64 {
    (i64::from(shard) << 48) + id
}

impl Row {
    pub(crate) fn queue_key(&self) -> i64 {
        queue_key(self.shard, self.id)
    }
}

/// Marks delivered rows as published, and records the position of the last one in each Kafka partition,
/// in one statement. The rows' keys and times limit the update to the right entries of the right indexes.
///
/// Within a minute the highest position stays.
pub(crate) async fn mark_published(
    connection: &mut PgConnection,
    delivered: &[Delivered],
    minute: &mut Minute,
) -> sqlx::Result<()> {
    let keys = delivered
        .iter()
        .map(|it| queue_key(it.row.shard, it.row.id));
    let times = || delivered.iter().map(|it| it.row.created_at);
    let last = LastPositions::of(delivered);
    let recorded = sqlx::query_scalar!(
        "with marked as (
             update outbox set published_at = now()
             where (shard::bigint << 48) + id = any($1) and published_at is null and not held
               and created_at between $2 and $3
         )
         insert into outbox_positions as known
             (kafka_partition, minute, kafka_offset, event_id, oldest_created_at)
         select kafka_partition, coalesce($8, now()), kafka_offset, event_id, oldest
         from unnest($4::integer[], $5::bigint[], $6::uuid[], $7::timestamptz[])
             as last (kafka_partition, kafka_offset, event_id, oldest)
         on conflict (kafka_partition, minute) do update
         set kafka_offset = greatest(known.kafka_offset, excluded.kafka_offset),
             event_id = case when excluded.kafka_offset > known.kafka_offset
                             then excluded.event_id else known.event_id end,
             oldest_created_at = least(known.oldest_created_at, excluded.oldest_created_at)
         returning minute",
        &keys.collect::<Vec<i64>>(),
        times().min(),
        times().max(),
        &last.partitions,
        &last.offsets,
        &last.event_ids,
        &last.oldest_created_at,
        minute.current()
    )
    .fetch_all(connection)
    .await?;
    if let Some(recorded) = recorded.first() {
        minute.recorded(*recorded);
    }
    Ok(())
}
