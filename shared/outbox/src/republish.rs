//! Sending again what the broker may have lost.

use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use service_kit::database::{self, STORE_TIMEOUT};
use sqlx::{Connection as _, PgPool};

use crate::{partitions, shards};

/// Longest wait for the relays' sessions to end, of whom each may take some seconds.
const END_RELAYS_TIMEOUT: Duration = Duration::from_secs(30);
/// Pages of a partition that one statement goes over: some thousand rows.
const PAGES_MAX: usize = 512;

/// Marks all published events since then as unpublished; returns how many. Relays send them again,
/// with the same ids and in their order, and ledgers recognise them: a repeat is harmless.
///
/// Many statements, each of bounded work, but one commit: a relay that saw half of it might send a
/// later event of an order before an earlier one.
pub async fn republish(pool: &PgPool, since: DateTime<Utc>) -> anyhow::Result<u64> {
    let mut loan = None;
    // A store that is away shows here, long before the time for all of the rows is over.
    let connection = database::with_timeout(STORE_TIMEOUT, async {
        let connection = loan.insert(database::acquire(pool).await?);
        connection.ping().await?;
        anyhow::Ok(connection)
    });
    let connection = connection.await.context("beginning to republish")?;
    // A relay may hold acknowledgements of the broker that is gone, and mark their rows after we have
    // passed them. Without its session it cannot, and reads them again.
    database::query_with_timeout(END_RELAYS_TIMEOUT, shards::end_relays(connection))
        .await
        .context("ending the relays' sessions")?;
    let begun = database::with_timeout(STORE_TIMEOUT, async {
        let mut tx = connection.begin().await?;
        partitions::keep_all(&mut tx).await?;
        let all = partitions::list(&mut tx).await?;
        anyhow::Ok((tx, all))
    });
    let (mut tx, all) = begun.await.context("keeping partitions")?;
    let mut republished = 0;
    for partition in all {
        if partition.until.is_some_and(|until| until <= since) {
            continue;
        }
        let name = &partition.name;
        let pages = partitions::pages(&mut tx, name).await?;
        for start in (0..pages).step_by(PAGES_MAX) {
            let some = start..start + PAGES_MAX as i64;
            republished += partitions::unmark(&mut tx, name, some, since)
                .await
                .with_context(|| format!("going over the partition {name}"))?;
        }
    }
    tx.commit().await.context("committing to republish")?;
    tracing::warn!(%since, republished, "events will be published again");
    Ok(republished)
}
