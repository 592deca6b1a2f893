//! The consumer: batches in one transaction with their ledger rows, offsets after the commit.

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
use crate::routes;
use crate::settings::Settings;
use crate::source::Source;
use crate::work::Work;

/// What a service does with the events it wants.
pub trait Handler: Send + Sync + 'static {
    fn wants(&self, event_type: EventType) -> bool;

    /// Applies new messages, in their order, in the transaction that `connection` is in. An error
    /// rolls everything back. The messages come again, one by one, and one that goes on failing is
    /// parked; but for errors of a database that is away, which are only waited out.
    fn handle(
        &self,
        connection: &mut PgConnection,
        deliveries: &[&Delivery],
    ) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// After the commit: wake whoever works on what was stored.
    fn committed(&self) {}
}

/// What one step of the consumer did.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No message came within the time given.
    Idle,
    /// So many were new, known already, put aside (or put behind one that was), or for somebody
    /// else.
    Processed {
        fresh: usize,
        duplicates: usize,
        parked: usize,
        skipped: usize,
    },
}

pub struct Consumer<H> {
    work: Arc<Work<H>>,
    source: Source,
    /// What was taken from Kafka and is not committed. Kept over a step that is given up: Kafka
    /// will not hand it out again.
    batch: Batch,
}

impl<H: Handler> Consumer<H> {
    pub fn new(settings: Settings, pool: PgPool, handler: H) -> anyhow::Result<Self> {
        Ok(Self {
            source: Source::subscribe(&settings)?,
            work: Arc::new(Work {
                settings,
                pool,
                handler,
            }),
            batch: Batch::default(),
        })
    }

    /// What an operator can ask of parked messages, to be merged into a service's own routes:
    /// `GET /admin/parked`, `GET` and `DELETE /admin/parked/{id}`, `POST /admin/parked/{id}/redrive`.
    pub fn routes(&self) -> Router {
        routes::table(self.work.clone())
    }

    /// How far this consumer is behind; goes on telling while it runs.
    pub fn lag(&self) -> Lag {
        self.source.lag.clone()
    }

    /// Consumes until shutdown.
    pub async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let mut batches = min_interval(self.work.settings.min_interval);
        while !shutdown.is_cancelled() {
            batches.tick().await;
            tokio::select! {
                step = self.try_process_batch(Duration::MAX) => { step?; }
                // Whatever was in the making rolls back or is a duplicate next time.
                () = shutdown.cancelled() => {}
            }
        }
        Ok(())
    }

    /// One step: waits up to `patience` for a message, takes what else is there, and processes it,
    /// however often it has to be tried. May be given up at any time, and called again.
    pub async fn try_process_batch(&mut self, patience: Duration) -> anyhow::Result<Outcome> {
        let wants = |kind| self.work.handler.wants(kind);
        if self.batch.is_empty() {
            self.source.collect(&mut self.batch, patience, wants).await;
            self.source.replace_lost(&mut self.batch)?;
        }
        let mut tries: u64 = 0;
        loop {
            if self.batch.is_empty() {
                return Ok(Outcome::Idle);
            }
            match self.work.settle(&mut self.batch).await {
                Ok(()) => {
                    self.source.store_offsets(&self.batch);
                    (self.work.settings.reached)("inbox.stored");
                    let batch = std::mem::take(&mut self.batch);
                    return Ok(Outcome::Processed {
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
                    tracing::warn!(tries, error, "messages failed and are tried again");
                    let pause = self.work.settings.retry_pause;
                    self.source.wait(&mut self.batch, pause, wants).await;
                    self.source.replace_lost(&mut self.batch)?;
                }
            }
        }
    }
}
