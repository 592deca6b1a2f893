//! Held orders: their next event cannot be delivered now, so all their events leave the relay's queue.
//! Other orders continue.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::store::{Row, queue_key};

/// How long an order of an unavailable Kafka partition is held before the relay tries again.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Maximum number of orders that one step releases.
const RELEASE_MAX: i64 = 200;
/// Maximum number of orders to count. Above it the exact count does not matter.
const COUNT_MAX: i64 = 10_000;

/// Why an event cannot be delivered now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Its Kafka partition has no leader, or does not answer while others do.
    Unavailable { kafka_partition: i32 },
    /// Kafka rejects the event itself. Only an operator can release it.
    Rejected { reason: String },
    /// An earlier event of the order is held.
    Behind,
}

/// Holds these rows and their orders. `Behind` adds rows to an order that is held already.
pub(crate) async fn hold(
    connection: &mut PgConnection,
    rows: &[(Row, Obstacle)],
) -> sqlx::Result<()> {
    let first: Vec<_> = rows
        .iter()
        .filter(|(_, obstacle)| *obstacle != Obstacle::Behind)
        .collect();
    let subjects: Vec<Uuid> = first.iter().map(|(row, _)| row.subject).collect();
    let shards: Vec<i16> = first.iter().map(|(row, _)| row.shard).collect();
    let partitions: Vec<Option<i32>> = first.iter().map(|(_, it)| it.kafka_partition()).collect();
    let reasons: Vec<String> = first.iter().map(|(_, it)| it.reason()).collect();
    sqlx::query!(
        "insert into outbox_held (subject, shard, kafka_partition, reason, retry_at)
         select subject, shard, kafka_partition, reason,
                case when kafka_partition is null then 'infinity'::timestamptz
                     else now() + make_interval(secs => $5) end
         from unnest($1::uuid[], $2::smallint[], $3::integer[], $4::text[])
             as new (subject, shard, kafka_partition, reason)
         on conflict (subject) do nothing",
        &subjects,
        &shards,
        &partitions as &[Option<i32>],
        &reasons,
        RETRY_AFTER.as_secs_f64()
    )
    .execute(&mut *connection)
    .await?;
    let keys = rows.iter().map(|(row, _)| queue_key(row.shard, row.id));
    let times = || rows.iter().map(|(row, _)| row.created_at);
    sqlx::query!(
        "update outbox set held = true
         where (shard::bigint << 48) + id = any($1) and published_at is null and not held
           and created_at between $2 and $3",
        &keys.collect::<Vec<i64>>(),
        times().min(),
        times().max()
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Whether any order of these shards is held.
pub(crate) async fn any(connection: &mut PgConnection, shards: &[i16]) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select exists (select from outbox_held where shard = any($1)) as "any!""#,
        shards
    )
    .fetch_one(connection)
    .await
}

/// Which of these orders are held.
pub(crate) async fn among(
    connection: &mut PgConnection,
    subjects: &[Uuid],
) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        "select subject from outbox_held where subject = any($1)",
        subjects
    )
    .fetch_all(connection)
    .await
}

/// The first row of a shard that returned to the queue.
pub(crate) struct Returned {
    pub(crate) shard: i16,
    pub(crate) id: i64,
    pub(crate) created_at: DateTime<Utc>,
}

/// Releases orders whose time has come, except those of partitions that are still unavailable. All
/// events of an order return to the queue in one commit, so they stay in order.
pub(crate) async fn release_due(
    connection: &mut PgConnection,
    shards: &[i16],
    unavailable: &[i32],
) -> sqlx::Result<Vec<Returned>> {
    sqlx::query_as!(
        Returned,
        r#"with due as (
               select subject from outbox_held
               where shard = any($1) and retry_at <= now()
                 and (kafka_partition is null or kafka_partition <> all($2))
               order by retry_at limit $3
           ),
           released as (
               delete from outbox_held where subject in (select subject from due)
               returning subject
           ),
           returned as (
               update outbox set held = false
               where held and subject in (select subject from released)
               returning shard, id, created_at
           )
           select shard as "shard!", min(id) as "id!", min(created_at) as "created_at!"
           from returned group by shard"#,
        shards,
        unavailable,
        RELEASE_MAX
    )
    .fetch_all(connection)
    .await
}

/// A held order as operators see it.
#[derive(Debug, Serialize)]
pub(crate) struct HeldOrder {
    pub(crate) order_id: Uuid,
    pub(crate) kafka_partition: Option<i32>,
    pub(crate) reason: String,
    pub(crate) held_at: DateTime<Utc>,
}

/// Held orders with ids above `after`.
pub(crate) async fn page(
    connection: &mut PgConnection,
    after: Uuid,
    rows_max: i64,
) -> sqlx::Result<Vec<HeldOrder>> {
    sqlx::query_as!(
        HeldOrder,
        "select subject as order_id, kafka_partition, reason, held_at from outbox_held
         where subject > $1 order by subject limit $2",
        after,
        rows_max
    )
    .fetch_all(connection)
    .await
}

/// Makes the relay try a held order again. Returns false if the order is not held.
pub(crate) async fn retry_now(connection: &mut PgConnection, order: Uuid) -> sqlx::Result<bool> {
    let done = sqlx::query!(
        "update outbox_held set retry_at = now() where subject = $1",
        order
    )
    .execute(connection)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Held orders by cause, each at most [`COUNT_MAX`].
pub(crate) async fn count(
    connection: &mut PgConnection,
) -> sqlx::Result<BTreeMap<&'static str, i64>> {
    let row = sqlx::query!(
        r#"select
               (select count(*) from (select from outbox_held
                   where kafka_partition is not null limit $1) as counted) as "unavailable!",
               (select count(*) from (select from outbox_held
                   where kafka_partition is null limit $1) as counted) as "rejected!""#,
        COUNT_MAX
    )
    .fetch_one(connection)
    .await?;
    Ok(BTreeMap::from([
        ("partition_unavailable", row.unavailable),
        ("rejected", row.rejected),
    ]))
}

impl Obstacle {
    fn kafka_partition(&self) -> Option<i32> {
        match self {
            Self::Unavailable { kafka_partition } => Some(*kafka_partition),
            Self::Rejected { .. } | Self::Behind => None,
        }
    }

    fn reason(&self) -> String {
        match self {
            Self::Unavailable { kafka_partition } => {
                format!("Kafka partition {kafka_partition} is unavailable")
            }
            Self::Rejected { reason } => reason.clone(),
            Self::Behind => "an earlier event of the order is held".to_owned(),
        }
    }
}
