//! The consumer: batches in one transaction with their ledger rows, offsets after the commit.

use std::future::Future;
use std::time::Duration;

use anyhow::Context as _;
use events::EventType;
use futures_util::FutureExt as _;
use rdkafka::consumer::{Consumer as _, StreamConsumer};
use rdkafka::error::KafkaResult;
use rdkafka::message::BorrowedMessage;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use sqlx::{PgConnection, PgPool};
use telemetry::metric;
use tokio_util::sync::CancellationToken;

use crate::assignment::Assignment;
use crate::batch::Batch;
use crate::delivery::Delivery;
use crate::ledger;

#[derive(Clone, Debug)]
pub struct Settings {
    pub brokers: String,
    pub topic: String,
    pub group: String,
    /// Most messages in one transaction.
    pub batch_max: usize,
    /// How long the broker may hold an empty fetch.
    pub fetch_wait_max_ms: u32,
    /// Pause before a batch that failed is tried again.
    pub retry_pause: Duration,
    /// Told the name of each place between two durable steps that is passed: for fault injection.
    pub reached: fn(&'static str),
}

impl Settings {
    pub fn new(brokers: &str, topic: &str, group: &str) -> Self {
        Self {
            brokers: brokers.to_owned(),
            topic: topic.to_owned(),
            group: group.to_owned(),
            batch_max: 500,
            fetch_wait_max_ms: 500,
            retry_pause: Duration::from_millis(500),
            reached: |_| {},
        }
    }
}

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
    kafka: StreamConsumer<Assignment>,
}

impl<H: Handler> Consumer<H> {
    pub fn new(settings: Settings, pool: PgPool, handler: H) -> anyhow::Result<Self> {
        let kafka: StreamConsumer<Assignment> = ClientConfig::new()
            .set("bootstrap.servers", &settings.brokers)
            .set("group.id", &settings.group)
            .set("isolation.level", "read_committed")
            // A new group has missed nothing yet: it starts with the first message.
            .set("auto.offset.reset", "earliest")
            // Offsets are stored by us, after the database commit; the client only ships them.
            .set("enable.auto.offset.store", "false")
            .set("auto.commit.interval.ms", "1000")
            .set("fetch.wait.max.ms", settings.fetch_wait_max_ms.to_string())
            // Retried soon rather than after a second when a fetch meets an error.
            .set("fetch.error.backoff.ms", "100")
            // How much may be read ahead; the backlog stays in the broker.
            .set("queued.max.messages.kbytes", "4096")
            .set("queued.min.messages", "2000")
            .create_with_context(Assignment::default())
            .context("creating the consumer")?;
        kafka.subscribe(&[&settings.topic]).context("subscribing")?;
        Ok(Self {
            settings,
            pool,
            handler,
            kafka,
        })
    }

    /// Consumes until shutdown.
    pub async fn run(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        while !shutdown.is_cancelled() {
            tokio::select! {
                step = self.try_process_batch(Duration::MAX) => { step?; }
                // Whatever was in the making rolls back or is a duplicate next time.
                () = shutdown.cancelled() => {}
            }
        }
        Ok(())
    }

    /// One step: waits up to `patience` for a message, takes what else is there, and processes it,
    /// however often the database has to be asked. Fails only if the batch cannot be read.
    pub async fn try_process_batch(&self, patience: Duration) -> anyhow::Result<Outcome> {
        let mut batch = Batch::default();
        self.collect(&mut batch, patience).await;
        let mut tries: u64 = 0;
        loop {
            batch.forget(&self.kafka.context().take_revoked());
            if batch.next.is_empty() {
                return Ok(Outcome::Idle);
            }
            match self.process(&batch).await {
                Ok(fresh) => {
                    self.store_offsets(&batch);
                    return Ok(Outcome::Processed {
                        fresh,
                        duplicates: batch.wanted.len() - fresh,
                        skipped: batch.skipped,
                    });
                }
                Err(error) => {
                    tries += 1;
                    metrics::counter!(metric::INBOX_RETRIES).increment(1);
                    let error = format!("{error:#}");
                    tracing::warn!(tries, error, "a batch failed and is tried again");
                    self.pause_and_poll(&mut batch).await;
                }
            }
        }
    }

    /// The first message may take its time; the rest is what is already here.
    async fn collect(&self, batch: &mut Batch, patience: Duration) {
        match tokio::time::timeout(patience, self.kafka.recv()).await {
            Ok(first) => self.take(batch, first),
            Err(_) => return,
        }
        while batch.len() < self.settings.batch_max {
            match self.kafka.recv().now_or_never() {
                Some(next) => self.take(batch, next),
                None => break,
            }
        }
    }

    fn take(&self, batch: &mut Batch, received: KafkaResult<BorrowedMessage<'_>>) {
        match received {
            Ok(message) => {
                batch.add(&message, &self.settings.group, |kind| {
                    self.handler.wants(kind)
                });
            }
            // The client reconnects by itself; there is nothing to do but to say so.
            Err(error) => tracing::warn!(%error, "receiving failed"),
        }
    }

    /// Ledger and effects in one transaction. Returns how many messages were new.
    async fn process(&self, batch: &Batch) -> anyhow::Result<usize> {
        batch.ensure_readable()?;
        if batch.wanted.is_empty() {
            return Ok(0);
        }
        let mut tx = self.pool.begin().await.context("beginning the batch")?;
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
        self.handler.committed();
        let duplicates = batch.wanted.len() - new.len();
        metrics::counter!(metric::INBOX_PROCESSED).increment(new.len() as u64);
        metrics::counter!(metric::INBOX_DUPLICATES).increment(duplicates as u64);
        metrics::histogram!(metric::INBOX_BATCH).record(batch.wanted.len() as f64);
        Ok(new.len())
    }

    fn store_offsets(&self, batch: &Batch) {
        let mut offsets = TopicPartitionList::new();
        for (partition, next) in &batch.next {
            let offset = Offset::Offset(*next);
            // Fails only for an invalid offset, and these came from the broker.
            let _ = offsets.add_partition_offset(&self.settings.topic, *partition, offset);
        }
        // Refused for a partition that was revoked meanwhile: the new owner meets the ledger.
        if let Err(error) = self.kafka.store_offsets(&offsets) {
            tracing::debug!(%error, "offsets not stored");
        }
        (self.settings.reached)("inbox.stored");
    }

    /// Waits before the next try, and goes on polling meanwhile with all partitions paused: a
    /// consumer that stops polling is thrown out of its group, and blocks the others' rebalance.
    async fn pause_and_poll(&self, batch: &mut Batch) {
        let assigned = self.kafka.assignment();
        if let Ok(assigned) = &assigned {
            let _ = self.kafka.pause(assigned);
        }
        let pause = tokio::time::sleep(self.settings.retry_pause);
        tokio::pin!(pause);
        loop {
            let room = batch.len() < self.settings.batch_max;
            tokio::select! {
                () = &mut pause => break,
                // Only a partition that was assigned just now is not paused.
                message = self.kafka.recv(), if room => self.take(batch, message),
            }
        }
        if let Ok(assigned) = &assigned {
            let _ = self.kafka.resume(assigned);
        }
    }
}
