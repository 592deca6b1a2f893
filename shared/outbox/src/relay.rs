//! The relay: reads unpublished rows, produces them, and marks those that the broker acknowledged.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rdkafka::producer::{FutureProducer, Producer as _};
use service_kit::min_interval;
use sqlx::postgres::PgConnectOptions;
use telemetry::metric;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::delivery::deliver;
use crate::session::{self, Session, bounded};
use crate::settings::Settings;
use crate::store::Row;
use crate::{kafka, store};

/// Wakes the relay of this process. Cheap to clone; call it after a commit that wrote events.
#[derive(Clone, Debug, Default)]
pub struct Wake(Arc<Notify>);

impl Wake {
    pub fn wake(&self) {
        self.0.notify_one();
    }
}

/// What one step of the relay did.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to publish in the shards it owns.
    Idle,
    /// So many rows were acknowledged and marked.
    Published(usize),
    /// Some were not acknowledged: they stay unpublished and are sent again.
    Refused { published: usize, refused: usize },
}

pub struct Relay {
    settings: Settings,
    database: PgConnectOptions,
    wake: Wake,
    producer: FutureProducer,
    session: Option<Session>,
}

/// Pause after a step that failed, so that an outage is not a busy loop.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);
/// How long a step may go on after shutdown began, so that what the broker has is also marked.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

impl Relay {
    /// Takes connection options, not a pool: shard locks live in one session of its own.
    pub fn new(settings: Settings, database: PgConnectOptions, wake: Wake) -> anyhow::Result<Self> {
        let database = session::options(database, settings.silence_max);
        let producer = kafka::producer(&settings).context("creating the producer")?;
        Ok(Self {
            settings,
            database,
            wake,
            producer,
            session: None,
        })
    }

    /// Publishes until shutdown. Errors are logged and waited out: rows are safe in their table.
    pub async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let mut batches = min_interval(self.settings.min_interval);
        while !shutdown.is_cancelled() {
            batches.tick().await;
            let Some(step) = finish(self.try_publish_batch(), &shutdown).await else {
                break;
            };
            let pause = match step {
                Ok(Outcome::Published(_)) => continue,
                Ok(Outcome::Idle) => {
                    // Never so long that the database takes it for dead.
                    let pause = self.settings.poll.min(self.settings.silence_max / 3);
                    tokio::select! {
                        () = self.wake.0.notified() => {}
                        () = tokio::time::sleep(pause) => {}
                        () = shutdown.cancelled() => {}
                    }
                    continue;
                }
                Ok(Outcome::Refused { published, refused }) => {
                    tracing::warn!(published, refused, "events not delivered, trying again");
                    // Long enough for another relay to take the shards that were given up.
                    FAILURE_PAUSE.max(2 * self.settings.rebalance)
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(error, "publishing failed, trying again");
                    FAILURE_PAUSE
                }
            };
            // Nobody wakes it from this pause: every commit would, and make the outage worse.
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = shutdown.cancelled() => {}
            }
        }
        Ok(())
    }

    /// One step: at most one batch of this relay's shards. If it comes to nothing the shards are
    /// given up, for whoever may be better placed.
    pub async fn try_publish_batch(&mut self) -> anyhow::Result<Outcome> {
        let outcome = self.publish_batch().await;
        if matches!(outcome, Err(_) | Ok(Outcome::Refused { published: 0, .. })) {
            self.session = None;
        }
        outcome
    }

    async fn publish_batch(&mut self) -> anyhow::Result<Outcome> {
        self.replace_dead_producer()?;
        let Settings {
            batch_max,
            rebalance,
            reached,
            ..
        } = self.settings;
        let session = session::open(&mut self.session, &self.database, rebalance).await?;
        let rows = bounded(async {
            store::unpublished(&mut session.connection, &session.shards, batch_max.into())
                .await
                .context("reading the outbox")
        })
        .await?;
        if rows.is_empty() {
            return Ok(Outcome::Idle);
        }
        reached("relay.claimed");
        let delivered = deliver_alive(&self.producer, &self.settings, session, &rows).await?;
        reached("relay.acknowledged");
        if !delivered.is_empty() {
            bounded(async {
                store::mark_published(&mut session.connection, &delivered, &rows)
                    .await
                    .context("marking events as published")
            })
            .await?;
        }
        reached("relay.marked");
        count(&rows, &delivered);
        metrics::histogram!(metric::OUTBOX_BATCH_SIZE).record(rows.len() as f64);
        let (published, refused) = (delivered.len(), rows.len() - delivered.len());
        Ok(match refused {
            0 => Outcome::Published(published),
            _ => Outcome::Refused { published, refused },
        })
    }

    /// An idempotent producer that met a fatal error (a broker that lost its data, say) refuses all
    /// further work; a new one starts a new sequence.
    fn replace_dead_producer(&mut self) -> anyhow::Result<()> {
        if let Some((code, reason)) = self.producer.client().fatal_error() {
            tracing::warn!(?code, reason, "replacing a producer that cannot go on");
            self.producer = kafka::producer(&self.settings)?;
        }
        Ok(())
    }
}

/// Tells the metrics what was published, by type: what the services announced.
fn count(rows: &[Row], delivered: &[i64]) {
    let delivered: HashSet<i64> = delivered.iter().copied().collect();
    let mut events = BTreeMap::<&str, u64>::new();
    for row in rows.iter().filter(|row| delivered.contains(&row.id)) {
        *events.entry(&row.event_type).or_default() += 1;
    }
    for (event_type, published) in events {
        let event_type = event_type.to_owned();
        metrics::counter!(metric::OUTBOX_PUBLISHED, "type" => event_type).increment(published);
    }
}

/// Waits for the broker without falling silent towards the database, however long it takes.
async fn deliver_alive(
    producer: &FutureProducer,
    settings: &Settings,
    session: &mut Session,
    rows: &[Row],
) -> anyhow::Result<Vec<i64>> {
    let delivery = deliver(producer, settings, rows);
    tokio::pin!(delivery);
    loop {
        tokio::select! {
            delivered = &mut delivery => return Ok(delivered),
            () = tokio::time::sleep(settings.silence_max / 3) => session.beat().await?,
        }
    }
}

/// The outcome of the step, which is given a little time to finish once shutdown has begun. Rows
/// of a step that does not make it stay unpublished, and are sent again by whoever comes next.
async fn finish<T>(step: impl Future<Output = T>, shutdown: &CancellationToken) -> Option<T> {
    tokio::pin!(step);
    tokio::select! {
        outcome = &mut step => Some(outcome),
        () = shutdown.cancelled() => tokio::time::timeout(FINISH_TIMEOUT, step).await.ok(),
    }
}
