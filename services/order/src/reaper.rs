//! Deletes expired idempotency keys, a bounded batch at a time.

use std::time::Duration;

use idempotency::store;
use service_kit::database;
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

/// Most records deleted by one statement: short locks, short transactions.
pub const BATCH_MAX: i64 = 1_000;
/// Longest time one batch may take, whatever the database does.
const BATCH_TIMEOUT: Duration = Duration::from_secs(15);

pub async fn run(
    pool: PgPool,
    interval: Duration,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = shutdown.cancelled() => return Ok(()),
        }
        // A failure is no reason to stop: the records wait, and the next round finds them.
        match sweep(&pool).await {
            Ok(0) => {}
            Ok(deleted) => tracing::debug!(deleted, "expired keys reaped"),
            Err(error) => tracing::warn!(%error, "reaping expired keys failed"),
        }
    }
}

/// Deletes all that has expired; returns how many records that were.
pub async fn sweep(pool: &PgPool) -> sqlx::Result<u64> {
    let mut total = 0;
    loop {
        let deleted = database::within(BATCH_TIMEOUT, async {
            let mut connection = database::acquire(pool).await?;
            store::reap(&mut connection, BATCH_MAX).await
        })
        .await?;
        total += deleted;
        if deleted < BATCH_MAX as u64 {
            return Ok(total);
        }
    }
}
