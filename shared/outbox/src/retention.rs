//! Maintenance of the outbox: creates partitions ahead of time and drops old ones.

use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, TimeDelta, Utc};
use service_kit::{Step, Swept, database, retention};
use sqlx::{Connection as _, PgConnection, PgPool, Postgres, Transaction};

use crate::partitions::{self, Partition};
use crate::positions;
use crate::shards::MAINTENANCE;

/// Number of partitions created ahead of the current one.
const PARTITIONS_AHEAD: i32 = 2;
/// Longest wait for the table lock, because all writers of events wait behind it. If the lock is not
/// available, the next round tries again.
const LOCK_TIMEOUT_MS: u32 = 100;
/// If the default partition has rows, partitions begin at least this far in the future. Rows that are
/// written until then still go to the default partition.
const CREATE_AHEAD_MIN: TimeDelta = TimeDelta::seconds(2);
/// Maximum number of rows deleted from the default partition in one round.
const DEFAULT_ROWS_MAX: i64 = 1_000;

#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// How long published events are kept.
    pub window: Duration,
    /// Time range that one partition covers; whole seconds.
    pub partition_width: Duration,
}

/// The result of one round of maintenance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Partitions created.
    pub created: u64,
    /// Partitions dropped.
    pub dropped: u64,
    /// Rows deleted from the default partition.
    pub deleted: u64,
}

/// One round: creates partitions ahead of time, drops those that are past the window and fully
/// published, and deletes such rows from the default partition. Only one replica at a time does
/// this: a concurrent call on another replica does nothing.
///
/// Partitions are created first. What fails after that must not keep rows going to the default partition.
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
        .context("listing the outbox partitions")?;
    tx.rollback().await?;
    let last = existing.iter().filter_map(|it| it.until).max();
    let missing = missing(now, last, retention.partition_width);
    maintained.created = create(&mut connection, now, missing).await?;
    let limit = now - TimeDelta::from_std(retention.window).unwrap_or(TimeDelta::MAX);
    for partition in &existing {
        let is_past = partition.until.is_some_and(|until| until <= limit);
        if is_past && remove(&mut connection, partition).await? {
            maintained.dropped += 1;
        }
    }
    if let Some((mut tx, _)) = begin(&mut connection).await? {
        maintained.deleted = partitions::reap_default(&mut tx, limit, DEFAULT_ROWS_MAX)
            .await
            .context("clearing the default partition")?;
        positions::reap(&mut tx, limit)
            .await
            .context("clearing old positions")?;
        tx.commit().await?;
    }
    Ok(maintained)
}

/// Creates the missing partitions; returns how many.
///
/// Postgres locks out all writers while it attaches a partition. Under that lock it scans the default
/// partition, unless a constraint proves that no row there belongs to the new one. So if the default
/// partition has rows, such a constraint is added and validated first, which blocks no writer. It rejects
/// new rows of its time range, so that range must be in the future.
async fn create(
    connection: &mut PgConnection,
    now: DateTime<Utc>,
    mut missing: Vec<(DateTime<Utc>, DateTime<Utc>)>,
) -> anyhow::Result<u64> {
    let is_default_empty = partitions::is_default_empty(connection).await?;
    if !is_default_empty {
        missing.retain(|(from, _)| *from > now + CREATE_AHEAD_MIN);
    }
    let (Some((from, _)), Some((_, until))) = (missing.first(), missing.last()) else {
        return Ok(0);
    };
    if !is_default_empty && !exclude_from_default(connection, *from, *until).await? {
        return Ok(0);
    }
    let mut created = 0;
    for (from, until) in missing {
        if add(connection, from, until).await? {
            created += 1;
        }
    }
    if !is_default_empty {
        end_exclusion(connection).await?;
    }
    Ok(created)
}

/// Adds and validates the constraint. Returns false if another session locks the table.
async fn exclude_from_default(
    connection: &mut PgConnection,
    from: DateTime<Utc>,
    until: DateTime<Utc>,
) -> anyhow::Result<bool> {
    let Some((mut tx, _)) = begin(connection).await? else {
        return Ok(false);
    };
    let added = partitions::exclude_from_default(&mut tx, from, until).await;
    let added = end(tx, added.map(|()| true)).await;
    if !added.context("adding a constraint to the default partition")? {
        return Ok(false);
    }
    partitions::validate_exclusion(connection)
        .await
        .context("validating the constraint of the default partition")?;
    Ok(true)
}

/// Drops the constraint, which the new partitions replace.
async fn end_exclusion(connection: &mut PgConnection) -> anyhow::Result<()> {
    let Some((mut tx, _)) = begin(connection).await? else {
        return Ok(());
    };
    let dropped = partitions::end_exclusion(&mut tx).await;
    end(tx, dropped.map(|()| true))
        .await
        .context("dropping the constraint of the default partition")?;
    Ok(())
}

/// For [`service_kit::Reaper::sweep`]: [`maintain`] as one of the sweeps of a service.
pub fn sweep(
    pool: &PgPool,
    settings: &retention::Settings,
) -> impl Fn() -> Step + Send + Sync + 'static {
    let pool = pool.clone();
    let retention = Retention {
        window: Duration::from_secs(settings.outbox_retention_seconds),
        partition_width: Duration::from_secs(settings.outbox_partition_seconds),
    };
    move || {
        let pool = pool.clone();
        Box::pin(async move {
            let maintained = maintain(&pool, retention).await?;
            if maintained.created + maintained.dropped > 0 {
                tracing::info!(?maintained, "outbox partitions changed");
            }
            Ok(Swept::batch(maintained.deleted, DEFAULT_ROWS_MAX))
        })
    }
}

/// Begins a transaction that may change partitions, and returns it with the database's time. `None`
/// while another replica holds the maintenance lock.
async fn begin(
    connection: &mut PgConnection,
) -> anyhow::Result<Option<(Transaction<'_, Postgres>, DateTime<Utc>)>> {
    let mut tx = connection.begin().await.context("beginning maintenance")?;
    let limit = LOCK_TIMEOUT_MS.to_string();
    sqlx::query!("select set_config('lock_timeout', $1, true)", limit)
        .fetch_one(&mut *tx)
        .await?;
    let locked = sqlx::query_scalar!(
        r#"select now() as "now!"
           from pg_advisory_xact_lock('outbox'::regclass::oid::integer, $1)"#,
        MAINTENANCE
    )
    .fetch_one(&mut *tx)
    .await;
    match locked {
        Ok(now) => Ok(Some((tx, now))),
        Err(error) if has_code(&error, LOCK_NOT_AVAILABLE) => {
            tx.rollback().await?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Adds a partition. Returns false if that is not possible now: another session locks the table, or
/// the default partition contains rows of that time range. Those rows stay there.
async fn add(
    connection: &mut PgConnection,
    from: DateTime<Utc>,
    until: DateTime<Utc>,
) -> anyhow::Result<bool> {
    let Some((mut tx, _)) = begin(connection).await? else {
        return Ok(false);
    };
    let added = async {
        // Another replica may have added it since this one looked.
        if partitions::exists(&mut tx, until).await? {
            return Ok(false);
        }
        partitions::lock_table(&mut tx).await?;
        partitions::add(&mut tx, from, until).await?;
        Ok(true)
    };
    let added = added.await;
    end(tx, added)
        .await
        .context("adding a partition to the outbox")
}

/// Drops a partition. Returns false if it has unpublished rows or another session locks the table.
async fn remove(connection: &mut PgConnection, partition: &Partition) -> anyhow::Result<bool> {
    let Some((mut tx, _)) = begin(connection).await? else {
        return Ok(false);
    };
    let name = &partition.name;
    let removed = async {
        // The first check avoids a useless lock. Only the second check, under the lock, is
        // reliable.
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

/// Commits, or rolls back if nothing was done. The rollback is immediate and does not wait for the next
/// use of the connection: the locks block all writers.
async fn end(tx: Transaction<'_, Postgres>, done: sqlx::Result<bool>) -> sqlx::Result<bool> {
    match done {
        Ok(true) => tx.commit().await.map(|()| true),
        Ok(false) => tx.rollback().await.map(|()| false),
        Err(error) => {
            tx.rollback().await?;
            match has_code(&error, LOCK_NOT_AVAILABLE) || has_code(&error, CHECK_VIOLATION) {
                true => Ok(false),
                false => Err(error),
            }
        }
    }
}

/// The partitions to create: from the current time, or from the end of the last one, up to
/// [`PARTITIONS_AHEAD`]. They begin and end at multiples of their width.
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
    let end = begin_of(now) + width * (1 + PARTITIONS_AHEAD);
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

fn has_code(error: &sqlx::Error, code: &str) -> bool {
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
    fn current_and_two_future_partitions_are_created_once() {
        let width = Duration::from_secs(10);
        let made = missing(at(1_007), None, width);
        let expected = [(1_000, 1_010), (1_010, 1_020), (1_020, 1_030)];
        assert_eq!(seconds(&made), expected);
        assert!(missing(at(1_009), Some(at(1_030)), width).is_empty());
        let later = missing(at(1_010), Some(at(1_030)), width);
        assert_eq!(seconds(&later), [(1_030, 1_040)]);
    }

    #[test]
    fn changed_width_continues_at_the_end_of_the_last() {
        let made = missing(at(1_007), Some(at(1_015)), Duration::from_secs(20));
        assert_eq!(
            seconds(&made),
            [(1_015, 1_020), (1_020, 1_040), (1_040, 1_060)]
        );
        let made = missing(at(1_007), Some(at(1_500)), Duration::from_secs(20));
        assert!(made.is_empty());
    }
}
