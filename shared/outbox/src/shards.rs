//! Assigns shards to relays: a shard belongs to the relay that holds its advisory lock.
//!
//! The locks belong to a database session, so a relay that dies frees its shards without any failure
//! detection. Connected relays share the shards evenly.

use sqlx::PgConnection;

/// Number of shards. It is also the maximum number of relays of one service that publish in
/// parallel.
pub const SHARDS: i16 = 16;

/// First half of each lock id: `"outb"` in ASCII, to avoid collisions with other lock users.
pub(crate) const LOCK_CLASS: i32 = 0x6f75_7462;
/// Second half of the id of the shared lock that every relay holds to be counted.
const PRESENCE: i32 = 1_000;
/// Second half of the id of the lock that a partition change holds.
pub(crate) const MAINTENANCE: i32 = 1_001;

/// Longest wait for the end of one relay's session.
const END_TIMEOUT_MS: i64 = 5_000;

/// Registers the relay, once per session, so that [`rebalance`] can count the relays.
pub(crate) async fn join(connection: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::query_scalar!(
        "select pg_advisory_lock_shared($1, $2)",
        LOCK_CLASS,
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
             and classid::bigint = $1 and objid::bigint = $2"#,
        i64::from(LOCK_CLASS),
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
        "select pg_terminate_backend(pid, $3) from (
            select distinct pid from pg_locks
            where locktype = 'advisory' and granted
              and database = (select oid from pg_database where datname = current_database())
              and classid::bigint = $1 and objid::bigint = $2
         ) as relays",
        i64::from(LOCK_CLASS),
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
        r#"select pg_try_advisory_lock($1, $2) as "locked!""#,
        LOCK_CLASS,
        i32::from(shard)
    )
    .fetch_one(connection)
    .await
}

async fn unlock(connection: &mut PgConnection, shard: i16) -> sqlx::Result<()> {
    sqlx::query_scalar!(
        "select pg_advisory_unlock($1, $2)",
        LOCK_CLASS,
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
