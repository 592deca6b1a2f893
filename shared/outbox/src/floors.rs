//! Where the relay begins to read each of its shards.
//!
//! Every row up to a shard's floor is published or held, and no row can appear there any more. Without
//! floors, a relay would read the index entries of all rows that were published since the oldest
//! snapshot in the database, in every step.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use service_kit::database::{Horizon, horizon};
use sqlx::PgConnection;

use crate::store::queue_key;

/// How often the floors rise.
const INTERVAL: Duration = Duration::from_millis(200);
/// How long they still rise after the last batch: until what it published is behind all writers. Only this relay
/// publishes rows of its shards, so an idle one need not look.
const IDLE_AFTER: Duration = Duration::from_secs(2);
/// Rows above the floors were created after the floors' time less this tolerance. It covers a clock
/// that is set back.
const CLOCK_TOLERANCE: TimeDelta = TimeDelta::hours(1);

/// A point in the outbox: the last id given out, and the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    id: i64,
    time: DateTime<Utc>,
}

/// The floor of each shard that a relay owns.
#[derive(Debug)]
pub(crate) struct Floors {
    floors: Vec<(i16, i64)>,
    /// Rows above the floors are not older than this. It selects the partitions to read.
    since: Option<DateTime<Utc>>,
    horizon: Horizon<Point>,
    raised_at: Option<Instant>,
    /// When the last batch was read, or the shards changed.
    active_at: Instant,
    full_read_interval: Duration,
    read_in_full_at: Instant,
}

impl Floors {
    pub(crate) fn new(full_read_interval: Duration) -> Self {
        Self {
            floors: Vec::new(),
            since: None,
            horizon: Horizon::default(),
            raised_at: None,
            active_at: Instant::now(),
            full_read_interval,
            read_in_full_at: Instant::now(),
        }
    }

    /// Follows a change of the owned shards. A new shard is read from its beginning.
    pub(crate) fn set_shards(&mut self, shards: &[i16]) {
        if self.floors.iter().map(|(shard, _)| shard).eq(shards) {
            return;
        }
        let floor = |shard| {
            let known = self.floors.iter().find(|(known, _)| *known == shard);
            known.map_or(0, |(_, floor)| *floor)
        };
        self.floors = shards.iter().map(|shard| (*shard, floor(*shard))).collect();
        self.since = None;
        self.note_activity();
    }

    pub(crate) fn shards(&self) -> Vec<i16> {
        self.floors.iter().map(|(shard, _)| *shard).collect()
    }

    /// The queue keys above which the relay reads, one for each shard.
    pub(crate) fn floor_keys(&self) -> Vec<i64> {
        let floors = self.floors.iter();
        floors
            .map(|(shard, floor)| queue_key(*shard, *floor))
            .collect()
    }

    /// The queue keys at which the shards end.
    pub(crate) fn ceiling_keys(&self) -> Vec<i64> {
        let floors = self.floors.iter();
        floors.map(|(shard, _)| queue_key(*shard + 1, 0)).collect()
    }

    pub(crate) fn since(&self) -> DateTime<Utc> {
        self.since.unwrap_or(DateTime::UNIX_EPOCH)
    }

    /// Makes the relay read its shards from their beginning.
    pub(crate) fn reset(&mut self) {
        self.floors.iter_mut().for_each(|(_, floor)| *floor = 0);
        self.since = None;
        self.read_in_full_at = Instant::now();
        self.note_activity();
    }

    /// A batch was read: the floors can rise.
    pub(crate) fn note_activity(&mut self) {
        self.active_at = Instant::now();
    }

    /// Makes the relay read a row that returned to the queue below the floor.
    pub(crate) fn lower(&mut self, shard: i16, id: i64, created_at: DateTime<Utc>) {
        for (_, floor) in self.floors.iter_mut().filter(|(known, _)| *known == shard) {
            *floor = (*floor).min(id - 1);
        }
        self.since = self.since.map(|since| since.min(created_at));
    }

    /// Raises the floors, if that is due, up to the first row that is still in the queue.
    pub(crate) async fn raise(&mut self, connection: &mut PgConnection) -> sqlx::Result<()> {
        if self.raised_at.is_some_and(|at| at.elapsed() < INTERVAL) {
            return Ok(());
        }
        if self.read_in_full_at.elapsed() >= self.full_read_interval {
            self.reset();
        }
        if self.active_at.elapsed() > IDLE_AFTER {
            return Ok(());
        }
        let now = point(connection).await?;
        let writers = horizon::writers(connection, "outbox").await?;
        if let Some(passed) = self.horizon.observe(now, writers) {
            self.raise_to(connection, passed).await?;
        }
        self.raised_at = Some(Instant::now());
        Ok(())
    }

    async fn raise_to(&mut self, connection: &mut PgConnection, to: Point) -> sqlx::Result<()> {
        let first = sqlx::query!(
            r#"select first.shard as "shard!", first.id as "id!", first.created_at as "created_at!"
               from unnest($1::bigint[], $2::bigint[]) as mine (floor, ceiling)
               cross join lateral (
                   select shard, id, created_at from outbox
                   where published_at is null and not held
                     and (shard::bigint << 48) + id > mine.floor
                     and (shard::bigint << 48) + id < mine.ceiling
                     and created_at >= $3
                   order by (shard::bigint << 48) + id limit 1
               ) as first
               where first.id <= $4"#,
            &self.floor_keys(),
            &self.ceiling_keys(),
            self.since(),
            to.id
        )
        .fetch_all(connection)
        .await?;
        for (shard, floor) in &mut self.floors {
            let waiting = first.iter().find(|row| row.shard == *shard);
            *floor = waiting.map_or(to.id, |row| row.id - 1).max(*floor);
        }
        let oldest = first.iter().map(|row| row.created_at).min();
        let oldest = oldest.map_or(to.time, |oldest| oldest.min(to.time));
        self.since = Some(oldest - CLOCK_TOLERANCE);
        Ok(())
    }
}

/// The current end of the outbox. Read before the writers, see [`horizon`].
async fn point(connection: &mut PgConnection) -> sqlx::Result<Point> {
    sqlx::query_as!(
        Point,
        r#"select case when is_called then last_value else 0 end as "id!",
                  clock_timestamp() as "time!"
           from outbox_ids"#
    )
    .fetch_one(connection)
    .await
}
