//! The consumer: processes each batch in one transaction and stores offsets after the commit.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use events::EventType;
use service_kit::min_interval;
use sqlx::{PgConnection, PgPool};
use telemetry::metric;
use tokio_util::sync::CancellationToken;

use crate::batch::Batch;
use crate::delivery::Delivery;
use crate::lag::Lag;
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
}

/// A service implements this to process the events it wants.
pub trait Handler: Send + Sync + 'static {
    fn wants(&self, event_type: EventType) -> bool;

    /// Applies new messages, in their order, in the open transaction of `connection`.
    ///
    /// An error rolls everything back, and the messages are tried again one by one. A message that
    /// keeps failing is parked. Errors of an unreachable database are retried and never park.
    fn handle(
        &self,
        connection: &mut PgConnection,
        deliveries: &[&Delivery],
    ) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Called after the commit. Wake the workers that use the stored rows here.
    fn committed(&self) {}
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

impl<H: Handler> Consumer<H> {
    pub fn new(settings: Settings, pool: PgPool, handler: H) -> anyhow::Result<Self> {
        Ok(Self {
            source: Source::subscribe(&settings)?,
            processor: Arc::new(Processor {
                settings,
                pool,
                handler,
            }),
            batch: Batch::default(),
        })
    }

    /// Operator routes for parked messages, to be merged into a service's routes:
    /// `GET /admin/parked`, `GET` and `DELETE /admin/parked/{id}`, `POST /admin/parked/{id}/redrive`.
    pub fn routes(&self) -> Router {
        routes::table(self.processor.clone())
    }

    /// The lag of this consumer. The value stays up to date while the consumer runs.
    pub fn lag(&self) -> Lag {
        self.source.lag.clone()
    }

    /// Consumes until shutdown.
    pub async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let mut batches = min_interval(self.processor.settings.min_interval);
        while !shutdown.is_cancelled() {
            batches.tick().await;
            tokio::select! {
                step = self.step(Duration::MAX) => { step?; }
                // An open transaction rolls back. If it committed, the redelivered messages are
                // duplicates.
                () = shutdown.cancelled() => {}
            }
        }
        Ok(())
    }

    /// One step: waits up to `wait_max` for a message, takes the others that have already arrived,
    /// and processes the batch, retrying until it succeeds. The returned future may be dropped at
    /// any time; the next call continues with the same messages.
    pub async fn step(&mut self, wait_max: Duration) -> anyhow::Result<StepOutcome> {
        let wants = |kind| self.processor.handler.wants(kind);
        if self.batch.is_empty() {
            self.source.collect(&mut self.batch, wait_max, wants).await;
            self.source.reconnect_if_lost(&mut self.batch)?;
        }
        let mut tries: u64 = 0;
        loop {
            if self.batch.is_empty() {
                return Ok(StepOutcome::Idle);
            }
            match self.processor.process(&mut self.batch).await {
                Ok(()) => {
                    self.source.store_offsets(&self.batch);
                    let batch = std::mem::take(&mut self.batch);
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
}
