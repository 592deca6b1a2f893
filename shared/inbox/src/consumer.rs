//! The consumer: processes each batch in one transaction and stores offsets after the commit.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use events::EventType;
use service_kit::{BatchInterval, Progress, QueueWait};
use sqlx::{PgConnection, PgPool};
use telemetry::metric;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::batch::Batch;
use crate::delivery::Delivery;
use crate::lag::Lag;
use crate::log_check::LogCheck;
use crate::processor::Processor;
use crate::routes;
use crate::settings::Settings;
use crate::source::Source;

/// Consumes a topic for one consumer group.
pub struct Consumer<H> {
    processor: Arc<Processor<H>>,
    source: Source,
    /// Messages taken from Kafka and not committed yet. They are kept when a step is dropped midway,
    /// because Kafka does not deliver them again to this client.
    batch: Batch,
    log_check: LogCheck,
    progress: Progress,
    /// How long messages wait for this consumer.
    wait: Arc<QueueWait>,
}

/// How often a consumer that waits for messages looks after its client.
const TICK: Duration = Duration::from_secs(1);
/// How long a batch may continue after shutdown. A commit whose response is not awaited may have leased rows: they
/// would wait until the lease ends.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// A service implements this to process the events it wants.
pub trait Handler: Send + Sync + 'static {
    /// What a call of [`Handler::handle`] leaves for after its commit: calls to start for leased rows, workers to wake.
    /// Dropped if the transaction rolls back. A value, not state of the handler: redrives run beside the consumer, each
    /// in its own transaction.
    type AfterCommit: Send;

    fn wants(&self, event_type: EventType) -> bool;

    /// Applies new messages, in their order, in the open transaction of `connection`.
    ///
    /// An error rolls everything back, and the messages are tried again one by one. A message that
    /// keeps failing is parked. Errors of an unreachable database are retried and never park.
    fn handle(
        &self,
        connection: &mut PgConnection,
        deliveries: &[&Delivery],
    ) -> impl Future<Output = anyhow::Result<Self::AfterCommit>> + Send;

    /// Called after a commit, with what `handle` returned in that transaction: one value for a batch, one for each
    /// message of a redrive, in their order. Not called if nothing was handled.
    fn committed(&self, _after_commit: Vec<Self::AfterCommit>) {}
}

/// The outcome of one step of the consumer.
#[derive(Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// No message arrived in time.
    Idle,
    /// A batch is committed.
    Processed {
        /// Messages that had their effect now.
        fresh: usize,
        /// Messages that were processed or parked before.
        duplicates: usize,
        /// Messages parked now: failed ones, and later ones of their orders.
        parked: usize,
        /// Messages of types that the handler does not want.
        skipped: usize,
    },
}

impl StepOutcome {
    /// How many messages the step took from the topic.
    fn messages(&self) -> usize {
        match *self {
            Self::Idle => 0,
            Self::Processed {
                fresh,
                duplicates,
                parked,
                skipped,
            } => fresh + duplicates + parked + skipped,
        }
    }

    /// Whether the step needed no transaction.
    fn is_free(&self) -> bool {
        match *self {
            Self::Idle => true,
            Self::Processed { skipped, .. } => skipped == self.messages(),
        }
    }
}

impl<H: Handler> Consumer<H> {
    pub fn new(settings: Settings, pool: PgPool, handler: H) -> anyhow::Result<Self> {
        // A counter that was never increased is not exported, and no alert could use it.
        metrics::counter!(metric::INBOX_LOG_REPLACED).increment(0);
        metrics::counter!(metric::INBOX_CLIENTS_REPLACED, "reason" => "hung").increment(0);
        Ok(Self {
            source: Source::subscribe(&settings)?,
            log_check: LogCheck::new(&settings)?,
            progress: Progress::current(settings.client_stall_max),
            processor: Arc::new(Processor {
                settings,
                pool,
                handler,
            }),
            batch: Batch::default(),
            wait: Arc::default(),
        })
    }

    /// Reports here how long messages wait for this consumer.
    #[must_use]
    pub fn watched(self, wait: Arc<QueueWait>) -> Self {
        Self { wait, ..self }
    }

    /// Operator routes for parked messages, for the operator listener:
    /// `GET /admin/parked`, `GET` and `DELETE /admin/parked/{id}`, `POST /admin/parked/{id}/redrive`.
    pub fn routes(&self) -> Router {
        routes::table(self.processor.clone())
    }

    /// The lag of this consumer. The value stays up to date while the consumer runs.
    pub fn lag(&self) -> Lag {
        self.source.lag.clone()
    }

    /// Makes the Kafka client hang: it keeps its partitions and delivers nothing. For tests.
    #[doc(hidden)]
    pub fn pause_client(&self) {
        self.source.pause();
    }

    /// Consumes until shutdown.
    pub async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let mut batches = BatchInterval::new(self.processor.settings.batch_interval_max);
        self.progress = Progress::current(self.processor.settings.client_stall_max);
        let mut ended = Ok(());
        while !shutdown.is_cancelled() && ended.is_ok() {
            batches.begin().await;
            tokio::select! {
                collected = self.collect(Duration::MAX) => ended = collected,
                () = shutdown.cancelled() => break,
            }
            let started = Instant::now();
            let grace = async {
                shutdown.cancelled().await;
                tokio::time::sleep(SHUTDOWN_GRACE).await;
            };
            tokio::select! {
                processed = self.process() => {
                    let full = self.processor.settings.batch_messages_max;
                    if processed.as_ref().is_ok_and(|it| !it.is_free() && it.messages() < full) {
                        batches.ended(started);
                    }
                    ended = ended.and(processed.map(|_| ()));
                }
                // An open transaction rolls back. If it committed, the redelivered messages are
                // duplicates.
                () = grace => {}
            }
        }
        self.source.close().await;
        ended
    }

    /// One step: waits up to `wait_max` for a message, takes the others that have already arrived,
    /// and processes the batch, retrying until it succeeds. The returned future may be dropped at
    /// any time; the next call continues with the same messages.
    pub async fn step(&mut self, wait_max: Duration) -> anyhow::Result<StepOutcome> {
        self.collect(wait_max).await?;
        self.process().await
    }

    /// Processes the batch, retrying until it succeeds.
    async fn process(&mut self) -> anyhow::Result<StepOutcome> {
        let wants = |kind| self.processor.handler.wants(kind);
        let mut tries: u64 = 0;
        loop {
            if self.batch.is_empty() {
                return Ok(StepOutcome::Idle);
            }
            // Without `end` before the success: a batch that never succeeds is a stall.
            self.progress.begin();
            self.wait.begin();
            match self.processor.process(&mut self.batch).await {
                Ok(()) => {
                    self.progress.end();
                    self.follow_assignment();
                    self.log_check.processed(&self.batch);
                    self.source
                        .store_offsets(&self.log_check.take_committable());
                    let batch = std::mem::take(&mut self.batch);
                    self.wait.end(batch.newest());
                    return Ok(StepOutcome::Processed {
                        fresh: batch.tally.fresh,
                        duplicates: batch.tally.duplicates,
                        parked: batch.tally.parked,
                        skipped: batch.skipped(),
                    });
                }
                Err(error) => {
                    tries += 1;
                    metrics::counter!(metric::INBOX_RETRIES).increment(1);
                    let error = format!("{error:#}");
                    tracing::warn!(tries, error, "batch failed, retrying");
                    let pause = self.processor.settings.retry_pause;
                    self.source.wait(&mut self.batch, pause, wants).await;
                    self.source.reconnect_if_lost(&mut self.batch)?;
                }
            }
        }
    }

    /// Waits for messages. While it waits, it looks after the client and its position in the log.
    async fn collect(&mut self, wait_max: Duration) -> anyhow::Result<()> {
        let waiting_since = Instant::now();
        while self.batch.is_empty() {
            self.check_log().await;
            let left = wait_max.saturating_sub(waiting_since.elapsed());
            let wants = |kind| self.processor.handler.wants(kind);
            let wait = left.min(TICK);
            self.source.collect(&mut self.batch, wait, wants).await;
            self.source.reconnect_if_lost(&mut self.batch)?;
            match self.source.reconnect_if_hung(&mut self.batch)? {
                true => self.progress.begin(),
                false => self.progress.end(),
            }
            if left <= TICK {
                break;
            }
        }
        Ok(())
    }

    fn follow_assignment(&mut self) {
        self.log_check.follow(&self.source.take_changes());
    }

    /// Starts over in partitions whose log was replaced. Nothing of them is in the batch.
    async fn check_log(&mut self) {
        self.follow_assignment();
        let (client, lag) = (self.source.client(), &self.source.lag);
        self.log_check.poll(client, lag).await;
        self.source
            .store_offsets(&self.log_check.take_committable());
        for partition in self.log_check.replaced() {
            match self.source.start_over(partition).await {
                Ok(()) => {
                    self.log_check.started_over(partition);
                    metrics::counter!(metric::INBOX_LOG_REPLACED).increment(1);
                    tracing::warn!(partition, "log was replaced, reading it from its start");
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(partition, error, "replaced log not read again, retrying");
                }
            }
        }
    }
}
