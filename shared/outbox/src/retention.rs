//! Partitions ahead, and old ones gone: what a service does now and then for its outbox.

use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, TimeDelta, Utc};
use service_kit::{Step, Swept, database, retention};
use sqlx::{Connection as _, PgConnection, PgPool, Postgres, Transaction};

use crate::partitions::{self, Partition};
use crate::shards::{LOCK_CLASS, MAINTENANCE};

/// Partitions that are made ahead of the present one.
const AHEAD: i32 = 2;
/// Longest wait for a lock, as everybody who writes events waits behind it. What is not got is tried
/// again with the next round.
const LOCK_TIMEOUT_MS: u32 = 100;
/// Most rows deleted from the default partition at a time.
const DEFAULT_ROWS_MAX: i64 = 1_000;

#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// How long published events are kept.
    pub window: Duration,
    /// How much time one partition covers; whole seconds.
    pub partition: Duration,
}

/// What one round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintained {
    pub created: u64,
    pub dropped: u64,
    /// Rows deleted from the default partition.
    pub deleted: u64,
}

/// One round: makes partitions ahead, drops those that are past the window and wholly published, and
/// clears the default partition of the same. One replica at a time; others do nothing meanwhile.
pub async fn maintain(pool: &PgPool, retention: Retention) -> anyhow::Result<Maintained> {
    let mut maintained = Maintained::default();
    let mut connection = database::acquire(pool)
        .await
        .context("beginning maintenance")?;
    let Some((mut tx, now)) = begin(&mut connection).await? else {
        return Ok(maintained);
    };
    let existing = partitions::list(&mut tx)
        .await
        .context("listing the outbox's partitions")?;
    let limit = now - TimeDelta::from_std(retention.window).unwrap_or(TimeDelta::MAX);
    maintained.deleted = partitions::reap_default(&mut tx, limit, DEFAULT_ROWS_MAX)
        .await
        .context("clearing the default partition")?;
    tx.commit().await?;
    let last = existing.iter().filter_map(|it| it.until).max();
    for (from, until) in missing(now, last, retention.partition) {
        if add(&mut connection, from, until).await? {
            maintained.created += 1;
        }
    }
    for partition in &existing {
        let is_past = partition.until.is_some_and(|until| until <= limit);
        if is_past && remove(&mut connection, partition).await? {
            maintained.dropped += 1;
        }
    }
    Ok(maintained)
}

/// For [`service_kit::Reaper::sweep`]: [`maintain`] as one of the sweeps of a service.
pub fn sweep(
    pool: &PgPool,
    settings: &retention::Settings,
) -> impl Fn() -> Step + Send + Sync + 'static {
    let pool = pool.clone();
    let retention = Retention {
        window: Duration::from_secs(settings.outbox_retention_seconds),
        partition: Duration::from_secs(settings.outbox_partition_seconds),
    };
    move || {
        let pool = pool.clone();
        Box::pin(async move {
            let maintained = maintain(&pool, retention).await?;
            if maintained.created + maintained.dropped > 0 {
                tracing::info!(?maintained, "the outbox's partitions have changed");
            }
            Ok(Swept::batch(maintained.deleted, DEFAULT_ROWS_MAX))
        })
    }
}

/// A transaction that may change partitions, and the database's time; `None` while somebody else's
/// may.
async fn begin(
    connection: &mut PgConnection,
) -> anyhow::Result<Option<(Transaction<'_, Postgres>, DateTime<Utc>)>> {
    let mut tx = connection.begin().await.context("beginning maintenance")?;
    let row = sqlx::query!(
        r#"select pg_try_advisory_xact_lock($1, $2) as "locked!", now() as "now!",
                  set_config('lock_timeout', $3, true)"#,
        LOCK_CLASS,
        MAINTENANCE,
        LOCK_TIMEOUT_MS.to_string()
    )
    .fetch_one(&mut *tx)
    .await?;
    if !row.locked {
        tx.rollback().await?;
        return Ok(None);
    }
    Ok(Some((tx, row.now)))
}

/// False if it has to wait: somebody is busy with the table, or rows of that time are in the default
/// partition, where they stay.
async fn add(
    connection: &mut PgConnection,
    from: DateTime<Utc>,
    until: DateTime<Utc>,
) -> anyhow::Result<bool> {
    let Some((mut tx, _)) = begin(connection).await? else {
        return Ok(false);
    };
    let added = async {
        partitions::lock_table(&mut tx).await?;
        partitions::add(&mut tx, from, until).await?;
        Ok(true)
    };
    let added = added.await;
    end(tx, added)
        .await
        .context("adding a partition to the outbox")
}

/// False if anything in it is unpublished, or if somebody is busy with the table.
async fn remove(connection: &mut PgConnection, partition: &Partition) -> anyhow::Result<bool> {
    let Some((mut tx, _)) = begin(connection).await? else {
        return Ok(false);
    };
    let name = &partition.name;
    let removed = async {
        // Asked twice, so that nobody is locked out for nothing; only the second time counts.
        if partitions::has_unpublished(&mut tx, name).await? {
            return Ok(false);
        }
        partitions::lock_table(&mut tx).await?;
        if partitions::has_unpublished(&mut tx, name).await? {
            return Ok(false);
        }
        partitions::drop(&mut tx, name).await?;
        Ok(true)
    };
    let removed = removed.await;
    end(tx, removed)
        .await
        .with_context(|| format!("dropping the partition {name}"))
}

/// Commits what was done. What could not be done now is rolled back at once, not when the connection
/// is used next: its locks are in everybody's way.
async fn end(tx: Transaction<'_, Postgres>, done: sqlx::Result<bool>) -> sqlx::Result<bool> {
    match done {
        Ok(true) => tx.commit().await.map(|()| true),
        Ok(false) => tx.rollback().await.map(|()| false),
        Err(error) => {
            tx.rollback().await?;
            match is(&error, LOCK_NOT_AVAILABLE) || is(&error, CHECK_VIOLATION) {
                true => Ok(false),
                false => Err(error),
            }
        }
    }
}

/// The partitions to make: from the present, or from where the last one ends, up to a few ahead.
/// They begin and end at whole multiples of their width.
fn missing(
    now: DateTime<Utc>,
    last: Option<DateTime<Utc>>,
    width: Duration,
) -> Vec<(DateTime<Utc>, DateTime<Utc>)> {
    let width_seconds = i64::try_from(width.as_secs()).unwrap_or(i64::MAX).max(1);
    let begin_of = |time: DateTime<Utc>| {
        let seconds = time.timestamp() - time.timestamp().rem_euclid(width_seconds);
        DateTime::from_timestamp(seconds, 0).unwrap_or(time)
    };
    let width = TimeDelta::seconds(width_seconds);
    let end = begin_of(now) + width * (1 + AHEAD);
    let mut from = begin_of(now).max(last.unwrap_or(DateTime::UNIX_EPOCH));
    let mut missing = Vec::new();
    while from < end {
        let until = begin_of(from) + width;
        missing.push((from, until));
        from = until;
    }
    missing
}

const LOCK_NOT_AVAILABLE: &str = "55P03";
const CHECK_VIOLATION: &str = "23514";

fn is(error: &sqlx::Error, code: &str) -> bool {
    let found = error.as_database_error().and_then(|error| error.code());
    found.is_some_and(|found| found == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn seconds(ranges: &[(DateTime<Utc>, DateTime<Utc>)]) -> Vec<(i64, i64)> {
        let ranges = ranges.iter();
        ranges
            .map(|(from, until)| (from.timestamp(), until.timestamp()))
            .collect()
    }

    #[test]
    fn the_present_and_two_ahead_are_made_once() {
        let width = Duration::from_secs(10);
        let made = missing(at(1_007), None, width);
        let expected = [(1_000, 1_010), (1_010, 1_020), (1_020, 1_030)];
        assert_eq!(seconds(&made), expected);
        assert!(missing(at(1_009), Some(at(1_030)), width).is_empty());
        let later = missing(at(1_010), Some(at(1_030)), width);
        assert_eq!(seconds(&later), [(1_030, 1_040)]);
    }

    #[test]
    fn another_width_goes_on_where_the_last_partition_ends() {
        let made = missing(at(1_007), Some(at(1_015)), Duration::from_secs(20));
        assert_eq!(
            seconds(&made),
            [(1_015, 1_020), (1_020, 1_040), (1_040, 1_060)]
        );
        let made = missing(at(1_007), Some(at(1_500)), Duration::from_secs(20));
        assert!(made.is_empty());
    }
}
