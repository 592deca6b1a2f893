//! Publishes events again, for a broker that may have lost them.

use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use service_kit::database::{self, STORE_TIMEOUT};
use sqlx::{Connection as _, PgPool};

use crate::{partitions, shards};

/// Longest wait for the sessions of all relays to end. Each may take some seconds.
const END_RELAYS_TIMEOUT: Duration = Duration::from_secs(30);
/// Pages of a partition that one statement updates: some thousand rows.
const PAGES_MAX: usize = 512;

/// Marks all published events that were written since then as unpublished; returns how many. Relays
/// send them again with the same ids and in the same order. Consumers skip those that they have
/// processed, so a repeat is harmless.
///
/// Many statements of bounded size, but one commit. A relay that saw only some of the rows could
/// send a later event of an order before an earlier one.
pub async fn republish(pool: &PgPool, since: DateTime<Utc>) -> anyhow::Result<u64> {
    let mut slot = None;
    // The short time-out reports an unreachable database long before the limit for all rows.
    let connection = database::with_timeout(STORE_TIMEOUT, async {
        let connection = slot.insert(database::acquire(pool).await?);
        connection.ping().await?;
        anyhow::Ok(connection)
    });
    let connection = connection.await.context("beginning to republish")?;
    // A relay may hold acknowledgements from the broker that lost its data. It would mark those
    // rows as published after this function has passed them. Without its session it cannot mark
    // them, and reads them again.
    database::query_with_timeout(END_RELAYS_TIMEOUT, shards::end_relays(connection))
        .await
        .context("ending the relays' sessions")?;
    let begun = database::with_timeout(STORE_TIMEOUT, async {
        let mut tx = connection.begin().await?;
        partitions::keep_all(&mut tx).await?;
        let all = partitions::list(&mut tx).await?;
        anyhow::Ok((tx, all))
    });
    let (mut tx, all) = begun.await.context("locking the partitions")?;
    let mut republished = 0;
    for partition in all {
        if partition.until.is_some_and(|until| until <= since) {
            continue;
        }
        let name = &partition.name;
        let pages = partitions::pages(&mut tx, name).await?;
        for start in (0..pages).step_by(PAGES_MAX) {
            let some = start..start + PAGES_MAX as i64;
            republished += partitions::mark_unpublished(&mut tx, name, some, since)
                .await
                .with_context(|| format!("updating the partition {name}"))?;
        }
    }
    tx.commit().await.context("committing the republication")?;
    tracing::warn!(%since, republished, "events marked for publishing again");
    Ok(republished)
}
