//! Assigns shards to relays: a shard belongs to the relay that holds its advisory lock.
//!
//! The first half of each lock id is the id of the table, so that outboxes in two schemas of one database
//! do not share locks.
//!
//! The locks belong to a database session, so a relay that dies frees its shards without any failure
//! detection. Connected relays share the shards evenly.

use sqlx::PgConnection;

/// Number of shards. It is also the maximum number of relays of one service that publish in
/// parallel.
pub const SHARDS: i16 = 16;

/// Second half of the id of the shared lock that every relay holds to be counted.
const PRESENCE: i32 = 1_000;
/// Second half of the id of the lock that a partition change holds.
pub(crate) const MAINTENANCE: i32 = 1_001;

/// Longest wait for the end of one relay's session.
const END_TIMEOUT_MS: i64 = 5_000;

/// Registers the relay, once per session, so that [`rebalance`] can count the relays.
pub(crate) async fn join(connection: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query_scalar!(
        "select pg_advisory_lock_shared('outbox'::regclass::oid::integer, $1)",
        PRESENCE
    )
    .fetch_one(connection)
    .await?;
    Ok(())
}

/// Takes free shards up to this relay's fair share, releases those above it, and returns the shards
/// that it owns now. Call it only between batches: an event in flight must not change its owner.
pub(crate) async fn rebalance(
    connection: &mut PgConnection,
    mut owned: Vec<i16>,
) -> sqlx::Result<Vec<i16>> {
    let relays = sqlx::query_scalar!(
        r#"select count(*) as "count!" from pg_locks
           where locktype = 'advisory' and granted and mode = 'ShareLock'
             and database = (select oid from pg_database where datname = current_database())
             and classid = 'outbox'::regclass::oid and objid::bigint = $1"#,
        i64::from(PRESENCE),
    )
    .fetch_one(&mut *connection)
    .await?;
    let share = fair_share(relays);
    while owned.len() > share {
        let Some(shard) = owned.pop() else { break };
        unlock(connection, shard).await?;
    }
    for shard in 0..SHARDS {
        if owned.len() >= share {
            break;
        }
        if !owned.contains(&shard) && try_lock(connection, shard).await? {
            owned.push(shard);
        }
    }
    Ok(owned)
}

/// Ends the sessions of all relays, and returns once they have ended. Relays open new ones.
pub(crate) async fn end_relays(connection: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query!(
        "select pg_terminate_backend(pid, $2) from (
            select distinct pid from pg_locks
            where locktype = 'advisory' and granted
              and database = (select oid from pg_database where datname = current_database())
              and classid = 'outbox'::regclass::oid and objid::bigint = $1
         ) as relays",
        i64::from(PRESENCE),
        END_TIMEOUT_MS
    )
    .fetch_all(connection)
    .await?;
    Ok(())
}

fn fair_share(relays: i64) -> usize {
    let relays = usize::try_from(relays).unwrap_or(1).max(1);
    (SHARDS as usize).div_ceil(relays)
}

async fn try_lock(connection: &mut PgConnection, shard: i16) -> sqlx::Result<bool> {
    sqlx::query_scalar!(
        r#"select pg_try_advisory_lock('outbox'::regclass::oid::integer, $1) as "locked!""#,
        i32::from(shard)
    )
    .fetch_one(connection)
    .await
}

async fn unlock(connection: &mut PgConnection, shard: i16) -> sqlx::Result<()> {
    sqlx::query_scalar!(
        "select pg_advisory_unlock('outbox'::regclass::oid::integer, $1)",
        i32::from(shard)
    )
    .fetch_one(connection)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_relays_covers_all_shards() {
        for relays in 1..=40 {
            let covered = fair_share(relays) * usize::try_from(relays).unwrap();
            assert!(covered >= SHARDS as usize, "{relays} relays");
        }
        assert_eq!(fair_share(0), SHARDS as usize);
    }
}
