//! `relay`: how fast the relay publishes a full outbox, relative to the slower of its two halves: reading and
//! marking the same rows with bare SQL, and producing the same messages without a database.

mod raw;

use std::time::Duration;

use anyhow::Context;
use endpoints::topic::{self, PARTITIONS_DEFAULT, Topic};
use outbox::{Relay, Retention, Settings, Wake};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio_util::sync::CancellationToken;

use super::steps::Bench;
use crate::measure::scratch_database::ScratchDatabase;

const TOPIC: &str = "bench-relay";
/// The defaults of the services.
const RETENTION: Retention = Retention {
    window: Duration::from_secs(604_800),
    partition_width: Duration::from_secs(86_400),
};
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Longest drain. A relay that publishes nothing would otherwise never end the run.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(300);

/// Fills the outbox with events as large as the order service's.
const FILL: &str = "insert into outbox
     (event_id, event_type, source, subject, shard, correlation_id, traceparent, payload)
 select gen_random_uuid(), 'order.placed', 'order', gen_random_uuid(), n % $2, gen_random_uuid()::text,
        '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01', rpad('{', 600, 'x')
 from generate_series(1, $1) as n";

/// Steps of [`measure`].
pub(super) fn steps(pairs: usize) -> usize {
    2 * pairs + 1
}

/// A separate database and topic, next to those of the running system.
struct Outbox {
    pool: PgPool,
    brokers: String,
    events: u32,
}

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<(f64, f64)>> {
    bench.steps.phase("relay");
    let prepared = Outbox::prepare(bench);
    let outbox = bench.steps.step("preparing an outbox", prepared).await?;
    let producer = raw::RawProducer::connect(&outbox.brokers, TOPIC).await?;
    let slower_half = async || {
        outbox.fill().await?;
        let sql = raw::drain_sql(&outbox.pool, outbox.events).await?;
        let produce = producer.produce(outbox.events).await?;
        Ok(sql.min(produce))
    };
    let pairs = bench
        .interleave(
            bench.scale.pairs,
            ("relay", async || outbox.drain_with_relay().await),
            ("bare SQL, then bare produce", slower_half),
        )
        .await?;
    Ok(pairs)
}

impl Outbox {
    async fn prepare(bench: &Bench<'_>) -> anyhow::Result<Self> {
        let database = ScratchDatabase::create(bench.rig.order_url(), "relay").await?;
        let pool = PgPoolOptions::new()
            .max_connections(4)
            .connect(&database.url)
            .await
            .context("connecting to the scratch database")?;
        // The partitions that the order service's reaper would create.
        outbox::maintain(&pool, RETENTION).await?;
        let brokers = bench.rig.system().brokers().to_owned();
        let topic = Topic {
            name: TOPIC.to_owned(),
            partitions: PARTITIONS_DEFAULT,
        };
        if bench.rig.system().topic_bytes().is_some() {
            topic::create(&brokers, &topic).await?;
        }
        Ok(Self {
            pool,
            brokers,
            events: bench.scale.relay_events,
        })
    }

    /// Empties the outbox and fills it again.
    async fn fill(&self) -> anyhow::Result<()> {
        sqlx::raw_sql("truncate outbox, outbox_positions")
            .execute(&self.pool)
            .await?;
        sqlx::query(FILL)
            .bind(i64::from(self.events))
            .bind(outbox::SHARDS)
            .execute(&self.pool)
            .await
            .context("filling the outbox")?;
        Ok(())
    }

    /// Events per second of the relay, from its first batch on: connecting and taking shards do not count.
    async fn drain_with_relay(&self) -> anyhow::Result<f64> {
        self.fill().await?;
        let settings = Settings::new(&self.brokers, TOPIC);
        let options = (*self.pool.connect_options()).clone();
        let relay = Relay::new(settings, options, Wake::default())?;
        let shutdown = CancellationToken::new();
        // Also ends the relay if this future is dropped.
        let stop = shutdown.clone().drop_guard();
        let running = tokio::spawn(relay.run(shutdown));
        tokio::time::timeout(DRAIN_TIMEOUT, self.wait_until_empty())
            .await
            .context("the relay did not publish the outbox")??;
        drop(stop);
        running.await??;
        let (events, seconds): (i64, f64) = sqlx::query_as(
            "select count(*) filter (where published_at > first),
                    coalesce(extract(epoch from max(published_at) - min(first)), 0)::float8
             from outbox, (select min(published_at) as first from outbox) as batch",
        )
        .fetch_one(&self.pool)
        .await
        .context("reading when the events were published")?;
        Ok(events as f64 / seconds.max(f64::EPSILON))
    }

    async fn wait_until_empty(&self) -> anyhow::Result<()> {
        let query = "select exists (select from outbox where published_at is null and not held)";
        while sqlx::query_scalar(query).fetch_one(&self.pool).await? {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }
}
