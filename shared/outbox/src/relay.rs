//! The relay: reads unpublished rows, produces them, and marks those that the broker acknowledged.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use chrono::Utc;
use rdkafka::producer::{FutureProducer, Producer as _};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, PgConnection};
use telemetry::{Kind, Span, metric};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::store::Row;
use crate::{kafka, shards, store};

#[derive(Clone, Debug)]
pub struct Settings {
    pub brokers: String,
    pub topic: String,
    /// Most rows read, produced and marked together.
    pub batch_max: u16,
    /// How long it sleeps without being woken; finds rows of a replica that died.
    pub poll: Duration,
    /// How often it looks for shards to take or to give up.
    pub rebalance: Duration,
    /// Told the name of each place between two durable steps that is passed: for fault injection.
    pub reached: fn(&'static str),
}

impl Settings {
    pub fn new(brokers: impl Into<String>, topic: impl Into<String>) -> Self {
        Self {
            brokers: brokers.into(),
            topic: topic.into(),
            batch_max: 500,
            poll: Duration::from_millis(250),
            rebalance: Duration::from_secs(1),
            reached: |_| {},
        }
    }
}

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
    /// The broker refused some: they stay unpublished and are sent again.
    Refused { published: usize, refused: usize },
}

pub struct Relay {
    settings: Settings,
    database: PgConnectOptions,
    wake: Wake,
    producer: FutureProducer,
    session: Option<Session>,
}

/// A database session and the shards that it owns; both end together.
struct Session {
    connection: PgConnection,
    shards: Vec<i16>,
    balanced_at: Instant,
}

/// Pause after a step that failed, so that an outage is not a busy loop.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);

impl Relay {
    /// Takes connection options, not a pool: shard locks live in one session of its own.
    pub fn new(settings: Settings, database: PgConnectOptions, wake: Wake) -> anyhow::Result<Self> {
        let producer = kafka::producer(&settings.brokers).context("creating the producer")?;
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
        while !shutdown.is_cancelled() {
            let step = tokio::select! {
                step = self.try_publish_batch() => step,
                // Undelivered rows stay unpublished, and are sent again by whoever comes next.
                () = shutdown.cancelled() => break,
            };
            let pause = match step {
                Ok(Outcome::Published(_)) => continue,
                Ok(Outcome::Idle) => self.settings.poll,
                Ok(Outcome::Refused { published, refused }) => {
                    tracing::warn!(
                        published,
                        refused,
                        "the broker refused events, trying again"
                    );
                    FAILURE_PAUSE
                }
                Err(error) => {
                    tracing::warn!(
                        error = format!("{error:#}"),
                        "publishing failed, trying again"
                    );
                    self.session = None;
                    FAILURE_PAUSE
                }
            };
            tokio::select! {
                () = self.wake.0.notified() => {}
                () = tokio::time::sleep(pause) => {}
                () = shutdown.cancelled() => {}
            }
        }
        Ok(())
    }

    /// One step: at most one batch of this relay's shards.
    pub async fn try_publish_batch(&mut self) -> anyhow::Result<Outcome> {
        self.replace_dead_producer()?;
        let batch_max = i64::from(self.settings.batch_max);
        let rebalance = self.settings.rebalance;
        let session = open(&mut self.session, &self.database, rebalance).await?;
        let rows = store::unpublished(&mut session.connection, &session.shards, batch_max)
            .await
            .context("reading the outbox")?;
        if rows.is_empty() {
            return Ok(Outcome::Idle);
        }
        (self.settings.reached)("relay.claimed");
        let delivered = deliver(&self.producer, &self.settings, &rows).await;
        (self.settings.reached)("relay.acknowledged");
        if !delivered.is_empty() {
            store::mark_published(&mut session.connection, &delivered)
                .await
                .context("marking events as published")?;
        }
        (self.settings.reached)("relay.marked");
        metrics::counter!(metric::OUTBOX_PUBLISHED).increment(delivered.len() as u64);
        metrics::histogram!(metric::OUTBOX_BATCH).record(rows.len() as f64);
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
            self.producer = kafka::producer(&self.settings.brokers)?;
        }
        Ok(())
    }
}

/// The open session, made anew after an error, with its shards looked over now and then.
async fn open<'a>(
    session: &'a mut Option<Session>,
    database: &PgConnectOptions,
    rebalance: Duration,
) -> anyhow::Result<&'a mut Session> {
    let mut open = match session.take() {
        Some(open) if open.balanced_at.elapsed() < rebalance => return Ok(session.insert(open)),
        Some(open) => open,
        None => {
            let mut connection = database.connect().await.context("connecting the relay")?;
            shards::join(&mut connection)
                .await
                .context("announcing the relay")?;
            Session {
                connection,
                shards: Vec::new(),
                balanced_at: Instant::now(),
            }
        }
    };
    open.shards = shards::rebalance(&mut open.connection, open.shards)
        .await
        .context("looking for shards to publish")?;
    open.balanced_at = Instant::now();
    Ok(session.insert(open))
}

/// Produces all rows in order and waits for the reports. Returns the ids to mark: delivered, and
/// with no earlier event of the same order that was refused, which would have to come first.
async fn deliver(producer: &FutureProducer, settings: &Settings, rows: &[Row]) -> Vec<i64> {
    let mut sent = Vec::with_capacity(rows.len());
    for row in rows {
        let span = publish_span(row, &settings.topic);
        sent.push((kafka::send(producer, &settings.topic, row, &span), span));
    }
    (settings.reached)("relay.produced");
    let mut delivered = Vec::with_capacity(rows.len());
    let mut held_up: HashSet<Uuid> = HashSet::new();
    for (row, (report, mut span)) in rows.iter().zip(sent) {
        let outcome = match report {
            Ok(report) => match report.await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err((error, _))) => Err(error.to_string()),
                Err(_) => Err("the producer was closed".to_owned()),
            },
            Err(error) => Err(error.to_string()),
        };
        match outcome {
            Ok(()) if !held_up.contains(&row.subject) => delivered.push(row.id),
            Ok(()) => {}
            Err(error) => {
                tracing::debug!(order_id = %row.subject, error, "an event was not delivered");
                span.fail(error);
                held_up.insert(row.subject);
            }
        }
        let waited = (Utc::now() - row.created_at).to_std().unwrap_or_default();
        metrics::histogram!(metric::OUTBOX_WAIT).record(waited);
    }
    delivered
}

/// Starts when the row was written, so that the time spent in the outbox is part of the trace.
fn publish_span(row: &Row, topic: &str) -> Span {
    let written_at = SystemTime::from(row.created_at);
    let parent = row.traceparent.as_deref();
    let name = format!("send {topic}");
    let mut span = Span::start_at(name, Kind::Producer, parent, Some(written_at));
    span.set("messaging.system", || "kafka");
    span.set("messaging.operation.type", || "send");
    span.set("messaging.destination.name", || topic.to_owned());
    span.set("messaging.message.id", || row.event_id.to_string());
    span.set("messaging.kafka.message.key", || row.subject.to_string());
    span.set("event.type", || row.event_type.clone());
    span.set("order.id", || row.subject.to_string());
    span.set("correlation_id", || row.correlation_id.clone());
    span.set("outbox.wait_ms", || {
        (Utc::now() - row.created_at).num_milliseconds()
    });
    span
}
