//! Publishes events again, for a broker that may have lost them.

use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use operators::{Operator, audit};
use serde_json::json;
use service_kit::database::{self, STORE_TIMEOUT};
use sqlx::{Connection as _, PgConnection, PgPool};

use crate::partitions::{self, Partition};
use crate::republication::{self, Republication};
use crate::shards;

/// Longest wait for the sessions of all relays to end. Each may take some seconds.
const END_RELAYS_TIMEOUT: Duration = Duration::from_secs(30);
/// Pages of a partition that one commit updates: some thousand rows.
const PAGES_MAX: usize = 512;

/// Marks all published events that were written since then as unpublished; returns how many. Relays
/// send them again with the same ids and in the same order. Consumers skip those that they have
/// processed, so a repeat is harmless.
///
/// Works in batches, oldest first, each in its own commit. While it runs, relays publish only events
/// that are older than the remaining batches. So no event overtakes an earlier one of its order. If
/// this process dies, [`Guard`](crate::Guard) continues in any replica.
pub async fn republish(pool: &PgPool, since: DateTime<Utc>, reason: &str) -> anyhow::Result<u64> {
    begin(pool, since, reason).await?;
    resume(pool).await
}

/// [`republish`] on an operator's request. The audit row commits with the start: from then on the
/// republication completes, whatever process dies.
pub(crate) async fn republish_for(
    pool: &PgPool,
    since: DateTime<Utc>,
    operator: &Operator,
) -> anyhow::Result<u64> {
    begin_with(pool, since, operator.reason(), Some(operator)).await?;
    resume(pool).await
}

/// Stores the republication, and ends the sessions of all relays. Every later session of a relay finds
/// it. A relay may also hold acknowledgements from the broker that lost its data: without its session
/// it cannot mark those rows as published any more.
pub(crate) async fn begin(pool: &PgPool, since: DateTime<Utc>, reason: &str) -> anyhow::Result<()> {
    begin_with(pool, since, reason, None).await
}

async fn begin_with(
    pool: &PgPool,
    since: DateTime<Utc>,
    reason: &str,
    operator: Option<&Operator>,
) -> anyhow::Result<()> {
    // The short timeout reports an unreachable database long before the limit for all rows.
    let mut connection = database::with_timeout(STORE_TIMEOUT, async {
        let mut connection = database::acquire(pool).await?;
        let mut tx = connection.begin().await?;
        republication::begin(&mut tx, since, reason).await?;
        if let Some(operator) = operator {
            let detail = json!({ "since": since });
            audit::record(&mut tx, operator, "outbox.republish", "outbox", &detail).await?;
        }
        tx.commit().await?;
        anyhow::Ok(connection)
    })
    .await
    .context("beginning to republish")?;
    let ended = shards::end_relays(&mut connection);
    database::query_with_timeout(END_RELAYS_TIMEOUT, ended)
        .await
        .context("ending the relays' sessions")
}

/// Does the rest of a republication that has begun; returns the number of events that it marked.
pub(crate) async fn resume(pool: &PgPool) -> anyhow::Result<u64> {
    let mut connection = database::acquire(pool).await.context("connecting")?;
    while let Some(current) = republication::find(&mut connection).await? {
        let all = partitions::list(&mut connection).await?;
        let (default, by_time): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|it| it.until.is_none());
        // The default partition has rows of any time, so it comes before every other batch.
        for partition in default {
            mark(&mut connection, &partition, &current).await?;
        }
        for partition in by_time {
            let Some(until) = partition.until else {
                continue;
            };
            if until > current.ready_until {
                mark(&mut connection, &partition, &current).await?;
                republication::advance(&mut connection, until.min(current.until)).await?;
            }
        }
        let marked = republication::find(&mut connection).await?;
        if republication::finish(&mut connection, &current).await? {
            let republished = marked.map_or(0, |it| it.republished);
            tracing::warn!(since = %current.since, republished, "events are published again");
            return Ok(republished.unsigned_abs());
        }
    }
    Ok(0)
}

/// Marks the published rows of one partition, in commits of bounded size.
async fn mark(
    connection: &mut PgConnection,
    partition: &Partition,
    republication: &Republication,
) -> anyhow::Result<()> {
    let name = &partition.name;
    let pages = partitions::pages(connection, name).await?;
    for start in (0..pages).step_by(PAGES_MAX) {
        let some = start..start + PAGES_MAX as i64;
        let mut tx = connection.begin().await?;
        let range = (republication.since, republication.until);
        let marked = partitions::mark_unpublished(&mut tx, name, some, range)
            .await
            .with_context(|| format!("updating the partition {name}"))?;
        republication::count(&mut tx, marked).await?;
        tx.commit().await?;
    }
    Ok(())
}
