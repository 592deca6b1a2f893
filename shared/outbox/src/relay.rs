//! The relay: reads unpublished rows, produces them, and marks those that the broker acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context as _;
use events::EventType;
use service_kit::{BatchInterval, Progress, QueueWait, UNPROTECTED};
use sqlx::postgres::PgConnectOptions;
use telemetry::metric;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::availability::Availability;
use crate::delivery::{Deliveries, Sender};
use crate::overlap::DatabaseWork;
use crate::positions::Minute;
use crate::session::{self, Session, bounded};
use crate::settings::Settings;
use crate::store::InFlight;
use crate::{batch, kafka, overlap, unprotected};

/// Publishes the outbox of one service. Every replica runs one.
pub struct Relay {
    settings: Settings,
    database: PgConnectOptions,
    wake: Wake,
    producer: kafka::Producer,
    /// Where the producer records its positions.
    minute: Minute,
    availability: Availability,
    partitions: Option<kafka::Partitions>,
    session: Option<Session>,
    /// How many rows the last batch had.
    last_batch: usize,
    /// How long events wait for this relay.
    wait: Arc<QueueWait>,
}

/// Wakes the relay of this process. Cheap to clone; call it after a commit that wrote events.
#[derive(Clone, Debug, Default)]
pub struct Wake(Arc<Notify>);

impl Wake {
    pub fn wake(&self) {
        if UNPROTECTED {
            unprotected::commit();
        }
        self.0.notify_one();
    }
}

/// The outcome of one step of the relay.
#[derive(Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// The relay's shards contain nothing to publish.
    Idle,
    /// This many rows were acknowledged and marked; none failed.
    Published(usize),
    /// Some rows cannot be delivered now. They and their orders are held; the others continue.
    Held { published: usize, held: usize },
    /// Some rows were not acknowledged. They stay unpublished and are sent again.
    Undelivered {
        published: usize,
        undelivered: usize,
    },
}

/// Pause after a failed step, so that an outage does not become a busy loop.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);
/// Maximum number of batches in one step of a relay that runs.
const BATCHES_MAX: usize = 16;
/// How much later than its own limit the producer may report a delivery.
const DELIVERY_SLACK: Duration = Duration::from_secs(30);
/// How long a step may continue after shutdown begins, so that acknowledged rows are also marked.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

impl StepOutcome {
    fn of(published: usize, last: &Deliveries) -> Self {
        let held = last.stuck.len();
        match last.undelivered {
            0 if held == 0 => Self::Published(published),
            0 => Self::Held { published, held },
            undelivered => Self::Undelivered {
                published,
                undelivered,
            },
        }
    }
}

impl Relay {
    /// Takes connection options instead of a pool: the shard locks need their own session.
    pub fn new(settings: Settings, database: PgConnectOptions, wake: Wake) -> anyhow::Result<Self> {
        let database = session::options(database, settings.session_idle_max);
        let producer = kafka::producer(&settings).context("creating the producer")?;
        Ok(Self {
            settings,
            database,
            wake,
            producer,
            minute: Minute::default(),
            availability: Availability::default(),
            partitions: None,
            session: None,
            last_batch: 0,
            wait: Arc::default(),
        })
    }

    /// Reports here how long events wait for this relay.
    #[must_use]
    pub fn watched(self, wait: Arc<QueueWait>) -> Self {
        Self { wait, ..self }
    }

    /// Publishes until shutdown. Errors are logged and retried: the rows are safe in their table.
    pub async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let mut batches = BatchInterval::new(self.settings.batch_interval_max);
        // Of the batches of one step, only the last two can take long: the step reads no further one after
        // `rebalance_interval`.
        let step_max = self.settings.rebalance_interval
            + 2 * self.delivery_wait_max()
            + 8 * self.settings.store_wait_max;
        let progress = Progress::current(step_max);
        while !shutdown.is_cancelled() {
            batches.begin().await;
            let started = tokio::time::Instant::now();
            let running = progress.step();
            let Some(step) = finish(self.publish(BATCHES_MAX), &shutdown).await else {
                break;
            };
            drop(running);
            let pause = match step {
                Ok(StepOutcome::Published(_)) if self.may_have_left_rows() => {
                    if !is_backlog(self.last_batch, &self.settings) {
                        batches.ended(started);
                    }
                    continue;
                }
                Ok(StepOutcome::Held { .. }) => {
                    batches.ended(started);
                    continue;
                }
                Ok(StepOutcome::Idle | StepOutcome::Published(_)) => {
                    batches.ended(started);
                    self.sleep_until_woken(&shutdown).await;
                    continue;
                }
                Ok(StepOutcome::Undelivered {
                    published,
                    undelivered,
                }) => {
                    tracing::warn!(published, undelivered, "events not delivered, retrying");
                    // Long enough for another relay to take the shards that this one released.
                    FAILURE_PAUSE.max(2 * self.settings.rebalance_interval)
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(error, "publishing failed, retrying");
                    FAILURE_PAUSE
                }
            };
            // A wake does not end this pause: with a wake after every commit, an outage would
            // become a busy loop.
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = shutdown.cancelled() => {}
            }
        }
        Ok(())
    }

    /// One step: at most one batch of this relay's shards.
    pub async fn step(&mut self) -> anyhow::Result<StepOutcome> {
        self.publish(1).await
    }

    /// Publishes up to this many batches. If the last one fails as a whole, the relay releases its shards:
    /// another relay may be able to reach the broker.
    async fn publish(&mut self, batches_max: usize) -> anyhow::Result<StepOutcome> {
        self.last_batch = 0;
        let outcome = self.publish_batches(batches_max).await;
        if outcome.is_err() {
            self.session = None;
        }
        outcome
    }

    /// With a backlog, the database records the previous batch and reads the next one while a batch is delivered. The step
    /// ends with the first batch that is not delivered completely.
    async fn publish_batches(&mut self, batches_max: usize) -> anyhow::Result<StepOutcome> {
        self.replace_failed_producer()?;
        self.ask_for_leaders().await;
        if UNPROTECTED {
            return Ok(self.publish_from_memory().await);
        }
        let wait_max = self.delivery_wait_max();
        let settings = &self.settings;
        let session = session::open(&mut self.session, &self.database, settings).await?;
        let unavailable = self.availability.unavailable(Instant::now());
        let read = batch::read(session, &unavailable, settings.batch_rows_max);
        let (mut rows, held) = bounded(settings.store_wait_max, read).await?;
        if rows.is_empty() {
            self.wait.end(None);
            return Ok(StepOutcome::Idle);
        }
        let can_read_ahead = !session.any_held && !session.republishing && unavailable.is_empty();
        let (began, mut batches, mut published) = (Instant::now(), 0, 0);
        let mut unrecorded = None;
        loop {
            batches += 1;
            self.last_batch = rows.len();
            self.wait.begin();
            (settings.reached)("relay.claimed");
            metrics::histogram!(metric::OUTBOX_BATCH_SIZE).record(rows.len() as f64);
            let reads_ahead = can_read_ahead
                && batches < batches_max
                && began.elapsed() < settings.rebalance_interval
                && is_backlog(rows.len(), settings);
            let work = DatabaseWork {
                settings,
                unrecorded: unrecorded.take(),
                minute: &mut self.minute,
                reads_ahead_of: reads_ahead.then(|| InFlight::of(&rows)),
            };
            let sender = Sender {
                producer: &self.producer,
                settings,
                availability: &mut self.availability,
                partitions: &mut self.partitions,
            };
            let batch = (rows, &held);
            let delivered = overlap::deliver(sender, session, batch, work, wait_max).await?;
            if let Some(recorded) = delivered.recorded {
                note_published(&recorded, &self.wait);
            }
            (settings.reached)("relay.acknowledged");
            let deliveries = delivered.deliveries;
            published += deliveries.delivered.len();
            if deliveries.is_complete() && !delivered.next.is_empty() {
                rows = delivered.next;
                unrecorded = Some(deliveries);
                continue;
            }
            let recorded = batch::record(session, &deliveries, &mut self.minute);
            bounded(settings.store_wait_max, recorded).await?;
            note_published(&deliveries, &self.wait);
            if deliveries.is_failure() {
                self.session = None;
            }
            return Ok(StepOutcome::of(published, &deliveries));
        }
    }

    /// A batch of an unprotected program. What is not delivered is lost.
    async fn publish_from_memory(&mut self) -> StepOutcome {
        let rows = unprotected::take(self.settings.batch_rows_max);
        if rows.is_empty() {
            self.wait.end(None);
            return StepOutcome::Idle;
        }
        self.wait.begin();
        let mut sender = Sender {
            producer: &self.producer,
            settings: &self.settings,
            availability: &mut self.availability,
            partitions: &mut self.partitions,
        };
        metrics::histogram!(metric::OUTBOX_BATCH_SIZE).record(rows.len() as f64);
        let count = rows.len();
        let deliveries = sender.deliver(rows, &BTreeSet::new()).await;
        let newest = deliveries.delivered.iter().map(|it| it.row.created_at);
        self.wait.end(newest.max().map(SystemTime::from));
        count_published(&deliveries);
        let published = deliveries.delivered.len();
        let lost = count - published;
        if lost > 0 {
            tracing::error!(lost, "events lost: Kafka did not accept them");
        }
        StepOutcome::Published(published)
    }

    /// How long a step waits for delivery reports. The producer reports every message, delivered or not,
    /// within `delivery_max`; one that does not is replaced.
    fn delivery_wait_max(&self) -> Duration {
        self.settings.delivery_max + DELIVERY_SLACK
    }

    /// Extends the wait for partitions that still have no leader.
    async fn ask_for_leaders(&mut self) {
        let due = self.availability.due(Instant::now());
        if due.is_empty() {
            return;
        }
        let Some(partitions) = self.producer.partitions(&self.settings.topic).await else {
            return;
        };
        for partition in due {
            if partitions.is_without_leader(partition) {
                let now = Instant::now();
                self.availability.still_without_leader(partition, now);
            }
        }
        self.partitions = Some(partitions);
    }

    /// Replaces a producer that must not send any more. A new one gets a new id and starts a new
    /// sequence.
    fn replace_failed_producer(&mut self) -> anyhow::Result<()> {
        if let Some(reason) = self.producer.defect() {
            tracing::info!(reason, "replacing the producer");
            self.producer = kafka::producer(&self.settings)?;
            self.minute = Minute::default();
        }
        Ok(())
    }

    /// Whether the last batch may have left rows in the table. A relay reads the same number of rows of each of
    /// its shards.
    fn may_have_left_rows(&self) -> bool {
        let shards = self.session.as_ref().map_or(1, Session::shards);
        self.last_batch >= usize::from(self.settings.batch_rows_max).div_ceil(shards)
    }

    async fn sleep_until_woken(&self, shutdown: &CancellationToken) {
        // Shorter than the idle limit, or Postgres would end the session of an idle relay.
        let idle_max = self.settings.session_idle_max;
        let pause = self.settings.poll_interval.min(idle_max / 3);
        tokio::select! {
            () = self.wake.0.notified() => {}
            () = tokio::time::sleep(pause) => {}
            () = shutdown.cancelled() => {}
        }
    }
}

/// Whether a batch of this many rows is large enough that the next one need not wait for more rows. A smaller one may also
/// leave rows, if its shards are unequally full.
fn is_backlog(rows: usize, settings: &Settings) -> bool {
    2 * rows > usize::from(settings.batch_rows_max)
}

/// Counts a recorded batch, and how long its events have waited.
fn note_published(deliveries: &Deliveries, wait: &QueueWait) {
    count_published(deliveries);
    if deliveries.undelivered == 0 {
        // Events that are published again have waited for nothing.
        let new = deliveries.delivered.iter().filter(|it| !it.row.republished);
        let newest = new.map(|it| it.row.created_at).max();
        wait.end(newest.map(SystemTime::from));
    }
}

/// Counts published events by type.
fn count_published(deliveries: &Deliveries) {
    let mut events = BTreeMap::<&'static str, u64>::new();
    for delivered in &deliveries.delivered {
        // A row of a newer release may have a type that this one does not know.
        let event_type = delivered.row.event_type.parse::<EventType>();
        let event_type = event_type.map_or("unknown", EventType::as_str);
        *events.entry(event_type).or_default() += 1;
    }
    for (event_type, published) in events {
        metrics::counter!(metric::OUTBOX_PUBLISHED, "type" => event_type).increment(published);
    }
}

/// Runs the step, with a little time to finish once shutdown begins. Rows of a step that does not
/// finish stay unpublished, and the next relay sends them again.
async fn finish<T>(step: impl Future<Output = T>, shutdown: &CancellationToken) -> Option<T> {
    tokio::pin!(step);
    tokio::select! {
        outcome = &mut step => Some(outcome),
        () = shutdown.cancelled() => tokio::time::timeout(FINISH_TIMEOUT, step).await.ok(),
    }
}
