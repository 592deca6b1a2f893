//! Kafka's side of the consumer: messages in, offsets out, and a place in the group.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use events::EventType;
use futures_util::FutureExt as _;
use rdkafka::consumer::{Consumer as _, StreamConsumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::assignment::Assignment;
use crate::batch::Batch;
use crate::lag::Lag;
use crate::settings::Settings;

pub(crate) struct Source {
    kafka: StreamConsumer<Assignment>,
    settings: Settings,
    topic: String,
    group: String,
    batch_max: usize,
    /// The brokers went away while this client had partitions of theirs.
    lost: AtomicBool,
    pub(crate) lag: Lag,
}

impl Source {
    pub(crate) fn subscribe(settings: &Settings) -> anyhow::Result<Self> {
        let lag = Lag::default();
        Ok(Self {
            kafka: client(settings, &lag)?,
            topic: settings.topic.clone(),
            group: settings.group.clone(),
            batch_max: settings.batch_max,
            settings: settings.clone(),
            lost: AtomicBool::new(false),
            lag,
        })
    }

    /// A client that has lost all its brokers is given up for a new one, and what it had taken is
    /// dropped. Brokers that come back with their data hand it out again; if they come back without,
    /// a client that remembers positions in a log that is gone may wait at them for ever, and would
    /// tell the group offsets that mean other messages now.
    pub(crate) fn replace_lost(&mut self, batch: &mut Batch) -> anyhow::Result<()> {
        if !self.lost.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        tracing::info!("all brokers were lost: joining the group anew");
        *batch = Batch::default();
        let old = std::mem::replace(&mut self.kafka, client(&self.settings, &self.lag)?);
        // It says goodbye to brokers that may not be there, for as long as that takes.
        std::thread::spawn(move || drop(old));
        Ok(())
    }
    /// Fills the batch: the first message may take its time, the rest is what is already here.
    pub(crate) async fn collect(
        &self,
        batch: &mut Batch,
        patience: Duration,
        wants: impl Fn(EventType) -> bool,
    ) {
        match tokio::time::timeout(patience, self.kafka.recv()).await {
            Ok(first) => self.take(batch, first, &wants),
            Err(_) => return,
        }
        while batch.len() < self.batch_max {
            match self.kafka.recv().now_or_never() {
                Some(next) => self.take(batch, next, &wants),
                None => break,
            }
        }
    }

    /// Sits a pause out with all partitions paused, and goes on polling: a consumer that does not
    /// poll is thrown out of its group, and holds up the rebalance of the others.
    pub(crate) async fn wait(
        &self,
        batch: &mut Batch,
        pause: Duration,
        wants: impl Fn(EventType) -> bool,
    ) {
        let _resumed_at_the_end = Paused {
            source: self,
            partitions: self.pause(),
        };
        let pause = tokio::time::sleep(pause);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => break,
                message = self.kafka.recv() => {
                    self.take(batch, message, &wants);
                    // It came from a partition that was assigned just now. Pausing it too bounds
                    // the batch to one message more for each partition.
                    self.pause();
                }
            }
        }
        self.forget_revoked(batch);
    }

    /// Drops the work of partitions that were taken away.
    pub(crate) fn forget_revoked(&self, batch: &mut Batch) {
        let revoked = self.kafka.context().take_revoked();
        if !revoked.is_empty() {
            batch.forget(&revoked);
        }
    }

    /// Lets the group know how far it has come. The client sends it along within a second.
    pub(crate) fn store_offsets(&self, batch: &Batch) {
        let mut offsets = TopicPartitionList::new();
        for (partition, next) in batch.next_offsets() {
            // Fails only for an invalid offset, and these came from the broker.
            let _ = offsets.add_partition_offset(&self.topic, partition, Offset::Offset(next));
        }
        // Refused for a partition that was revoked meanwhile: the new owner meets the ledger.
        if let Err(error) = self.kafka.store_offsets(&offsets) {
            tracing::debug!(%error, "offsets not stored");
        }
    }

    fn take(
        &self,
        batch: &mut Batch,
        received: KafkaResult<BorrowedMessage<'_>>,
        wants: &impl Fn(EventType) -> bool,
    ) {
        // First, and with every message: partitions are revoked and assigned while we poll, so what
        // is in the batch came before that and this message after. Forgotten later, a partition
        // that was taken and given back would lose its new messages with the old, for good.
        self.forget_revoked(batch);
        match received {
            Ok(message) => batch.add(&message, (&self.topic, &self.group), wants),
            Err(error) => {
                tracing::warn!(%error, "receiving failed");
                let all_down = KafkaError::MessageConsumption(RDKafkaErrorCode::AllBrokersDown);
                // One that has no partitions yet has nothing to remember, and reconnects by itself.
                if error == all_down && self.has_partitions() {
                    self.lost.store(true, Ordering::Release);
                }
            }
        }
    }

    fn has_partitions(&self) -> bool {
        let assigned = self.kafka.assignment();
        assigned.is_ok_and(|partitions| partitions.count() > 0)
    }

    fn pause(&self) -> Option<TopicPartitionList> {
        let assigned = self.kafka.assignment().ok()?;
        let _ = self.kafka.pause(&assigned);
        Some(assigned)
    }
}

fn client(settings: &Settings, lag: &Lag) -> anyhow::Result<StreamConsumer<Assignment>> {
    let kafka: StreamConsumer<Assignment> = ClientConfig::new()
        .set("bootstrap.servers", &settings.brokers)
        .set("group.id", &settings.group)
        .set("isolation.level", "read_committed")
        // A new group has missed nothing yet: it starts with the first message.
        .set("auto.offset.reset", "earliest")
        // Offsets are stored by us, after the database commit; the client only ships them.
        .set("enable.auto.offset.store", "false")
        .set("auto.commit.interval.ms", "1000")
        .set("session.timeout.ms", settings.session_max_ms.to_string())
        .set(
            "heartbeat.interval.ms",
            (settings.session_max_ms / 4).to_string(),
        )
        .set("fetch.wait.max.ms", settings.fetch_wait_max_ms.to_string())
        // Retried soon rather than after a second when a fetch meets an error.
        .set("fetch.error.backoff.ms", "100")
        // How soon a topic is found that was not there, or was made anew after its broker had lost
        // everything; by default it takes five minutes.
        .set("topic.metadata.refresh.interval.ms", "5000")
        // How much may be read ahead; the backlog stays in the broker.
        .set("queued.max.messages.kbytes", "4096")
        .set("queued.min.messages", "2000")
        // What the lag is computed from.
        .set(
            "statistics.interval.ms",
            settings.statistics.as_millis().to_string(),
        )
        .create_with_context(Assignment::new(lag.follow()))
        .context("creating the consumer")?;
    kafka.subscribe(&[&settings.topic]).context("subscribing")?;
    Ok(kafka)
}

/// Partitions that are resumed when this is dropped, also if the wait was given up half-way.
struct Paused<'a> {
    source: &'a Source,
    partitions: Option<TopicPartitionList>,
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        let kafka = &self.source.kafka;
        // One that was revoked meanwhile is not left paused either, for the day it comes back.
        let all = [self.partitions.take(), kafka.assignment().ok()];
        for partitions in all.into_iter().flatten() {
            let _ = kafka.resume(&partitions);
        }
    }
}
