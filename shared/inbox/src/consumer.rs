//! The consumer: batches in one transaction with their ledger rows, offsets after the commit.

use std::time::Duration;

use anyhow::Context as _;
use events::EventType;
use sqlx::{Connection as _, PgConnection, PgPool};
use telemetry::metric;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::batch::Batch;
use crate::delivery::Delivery;
use crate::ledger;
use crate::settings::Settings;
use crate::source::Source;

/// What a service does with the events it wants.
pub trait Handler: Send + Sync + 'static {
    fn wants(&self, event_type: EventType) -> bool;

    /// Applies new messages, in their order, in the transaction that `connection` is in. An error
    /// rolls everything back and the batch comes again: nothing is skipped.
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
    /// So many were new, already in the ledger, or for somebody else.
    Processed {
        fresh: usize,
        duplicates: usize,
        skipped: usize,
    },
}

pub struct Consumer<H> {
    settings: Settings,
    pool: PgPool,
    handler: H,
    source: Source,
    /// What was taken from Kafka and is not committed. Kept over a step that is given up: Kafka
    /// will not hand it out again.
    batch: Batch,
}

impl<H: Handler> Consumer<H> {
    pub fn new(settings: Settings, pool: PgPool, handler: H) -> anyhow::Result<Self> {
        Ok(Self {
            source: Source::subscribe(&settings)?,
            settings,
            pool,
            handler,
            batch: Batch::default(),
        })
    }

    /// Consumes until shutdown.
    pub async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let mut pace = interval(self.settings.pace);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !shutdown.is_cancelled() {
            pace.tick().await;
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
        let wants = |kind| self.handler.wants(kind);
        if self.batch.is_empty() {
            self.source.collect(&mut self.batch, patience, wants).await;
        }
        let mut tries: u64 = 0;
        loop {
            if self.batch.is_empty() {
                return Ok(Outcome::Idle);
            }
            match self.process(&self.batch).await {
                Ok(fresh) => {
                    self.source.store_offsets(&self.batch);
                    (self.settings.reached)("inbox.stored");
                    let batch = std::mem::take(&mut self.batch);
                    return Ok(Outcome::Processed {
                        fresh,
                        duplicates: batch.wanted.len() - fresh,
                        skipped: batch.skipped(),
                    });
                }
                Err(error) => {
                    tries += 1;
                    metrics::counter!(metric::INBOX_RETRIES).increment(1);
                    let error = format!("{error:#}");
                    tracing::warn!(tries, error, "a batch failed and is tried again");
                    let pause = self.settings.retry_pause;
                    self.source.wait(&mut self.batch, pause, wants).await;
                }
            }
        }
    }

    /// Ledger and effects in one transaction. Returns how many messages were new.
    async fn process(&self, batch: &Batch) -> anyhow::Result<usize> {
        batch.ensure_readable()?;
        if batch.wanted.is_empty() {
            return Ok(0);
        }
        let mut connection = self.pool.acquire().await.context("connecting")?;
        let transaction = self.transact(&mut connection, batch);
        let done = tokio::time::timeout(self.settings.transaction_max, transaction).await;
        if done.is_err() {
            // Back in the pool it would be waited for without end, and its place be taken.
            connection.close_on_drop();
        }
        let new = done.context("the transaction takes too long")??;
        self.handler.committed();
        metrics::counter!(metric::INBOX_PROCESSED).increment(new as u64);
        let duplicates = batch.wanted.len() - new;
        metrics::counter!(metric::INBOX_DUPLICATES).increment(duplicates as u64);
        metrics::histogram!(metric::INBOX_BATCH).record(batch.wanted.len() as f64);
        Ok(new)
    }

    async fn transact(
        &self,
        connection: &mut PgConnection,
        batch: &Batch,
    ) -> anyhow::Result<usize> {
        let mut tx = connection.begin().await.context("beginning the batch")?;
        let ids = batch
            .wanted
            .iter()
            .map(|delivery| delivery.envelope.id)
            .collect();
        let mut fresh = ledger::record(&mut tx, &self.settings.group, ids)
            .await
            .context("writing the ledger")?;
        // The same message may stand in one batch twice: `remove` lets only the first through.
        let new: Vec<&Delivery> = batch
            .wanted
            .iter()
            .filter(|delivery| fresh.remove(&delivery.envelope.id))
            .collect();
        if !new.is_empty() {
            self.handler.handle(&mut tx, &new).await?;
        }
        (self.settings.reached)("inbox.handled");
        tx.commit().await.context("committing the batch")?;
        (self.settings.reached)("inbox.committed");
        Ok(new.len())
    }
}
