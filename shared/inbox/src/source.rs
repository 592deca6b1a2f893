//! The Kafka client of a consumer: receives messages, stores offsets, stays in the group.

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
    /// All brokers became unreachable while this client had partitions.
    brokers_lost: AtomicBool,
    pub(crate) lag: Lag,
}

impl Source {
    pub(crate) fn subscribe(settings: &Settings) -> anyhow::Result<Self> {
        let lag = Lag::default();
        Ok(Self {
            kafka: client(settings, &lag)?,
            settings: settings.clone(),
            brokers_lost: AtomicBool::new(false),
            lag,
        })
    }

    /// Replaces a client that has lost all its brokers, and drops the messages it had taken.
    ///
    /// Brokers that return with their data deliver the messages again. If they return without it,
    /// the old client remembers positions in a log that no longer exists. It may wait at such a
    /// position forever, and would commit offsets that now belong to other messages.
    pub(crate) fn reconnect_if_lost(&mut self, batch: &mut Batch) -> anyhow::Result<()> {
        if !self.brokers_lost.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        tracing::info!("all brokers lost, joining the group again");
        *batch = Batch::default();
        let old = std::mem::replace(&mut self.kafka, client(&self.settings, &self.lag)?);
        // Closing waits for brokers that may be unreachable, so it runs on its own thread.
        std::thread::spawn(move || drop(old));
        Ok(())
    }

    /// Fills the batch: waits for the first message, then takes those that have already arrived.
    pub(crate) async fn collect(
        &self,
        batch: &mut Batch,
        wait_max: Duration,
        wants: impl Fn(EventType) -> bool,
    ) {
        match tokio::time::timeout(wait_max, self.kafka.recv()).await {
            Ok(first) => self.receive(batch, first, &wants),
            Err(_) => return,
        }
        while batch.len() < self.settings.batch_messages_max {
            match self.kafka.recv().now_or_never() {
                Some(next) => self.receive(batch, next, &wants),
                None => break,
            }
        }
    }

    /// Waits with all partitions paused, and keeps polling. A consumer that does not poll is
    /// removed from its group and delays the rebalance of the others.
    pub(crate) async fn wait(
        &self,
        batch: &mut Batch,
        pause: Duration,
        wants: impl Fn(EventType) -> bool,
    ) {
        let _resumed_on_drop = Paused {
            source: self,
            partitions: self.pause(),
        };
        let pause = tokio::time::sleep(pause);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => break,
                message = self.kafka.recv() => {
                    self.receive(batch, message, &wants);
                    // The message is from a partition that was just assigned. Pausing that one too
                    // limits the batch to one extra message per partition.
                    self.pause();
                }
            }
        }
        self.forget_revoked(batch);
    }

    /// Drops the work on revoked partitions.
    pub(crate) fn forget_revoked(&self, batch: &mut Batch) {
        let revoked = self.kafka.context().take_revoked();
        if !revoked.is_empty() {
            batch.forget(&revoked);
        }
    }

    /// Stores the offsets in the client, which commits them to the group within a second.
    pub(crate) fn store_offsets(&self, batch: &Batch) {
        let topic = &self.settings.topic;
        let mut offsets = TopicPartitionList::new();
        for (partition, next) in batch.next_offsets() {
            // Fails only for an invalid offset; these offsets came from the broker.
            let _ = offsets.add_partition_offset(topic, partition, Offset::Offset(next));
        }
        // Fails for a partition that was revoked during the commit. Its new owner receives the
        // messages again and finds them processed.
        if let Err(error) = self.kafka.store_offsets(&offsets) {
            tracing::debug!(%error, "offsets not stored");
        }
    }

    fn receive(
        &self,
        batch: &mut Batch,
        received: KafkaResult<BorrowedMessage<'_>>,
        wants: &impl Fn(EventType) -> bool,
    ) {
        // This comes first, for every message. Partitions are revoked and assigned during polls: the
        // batch is from before the rebalance, this message from after it. Dropping revoked work
        // later would lose the new messages of a partition that was revoked and assigned again.
        self.forget_revoked(batch);
        match received {
            Ok(message) => {
                let origin = (&*self.settings.topic, &*self.settings.group);
                batch.add(&message, origin, wants);
            }
            Err(error) => {
                tracing::warn!(%error, "receive failed");
                let all_down = KafkaError::MessageConsumption(RDKafkaErrorCode::AllBrokersDown);
                // A client without partitions remembers no positions. It reconnects by itself.
                if error == all_down && self.has_partitions() {
                    self.brokers_lost.store(true, Ordering::Release);
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
        // A new group starts with the first message.
        .set("auto.offset.reset", "earliest")
        // We store offsets after the database commit; the client only sends them.
        .set("enable.auto.offset.store", "false")
        .set("auto.commit.interval.ms", "1000")
        .set(
            "session.timeout.ms",
            settings.session_timeout_ms.to_string(),
        )
        .set(
            "heartbeat.interval.ms",
            (settings.session_timeout_ms / 4).to_string(),
        )
        .set("fetch.wait.max.ms", settings.fetch_wait_max_ms.to_string())
        // Retry a failed fetch soon; the default is a longer back-off.
        .set("fetch.error.backoff.ms", "100")
        // How soon the client finds a topic that was created, or recreated after its broker lost
        // its data. The default is five minutes.
        .set("topic.metadata.refresh.interval.ms", "5000")
        // Limits the read-ahead; the backlog stays in the broker.
        .set("queued.max.messages.kbytes", "4096")
        .set("queued.min.messages", "2000")
        // The lag is computed from the statistics.
        .set(
            "statistics.interval.ms",
            settings.statistics_interval.as_millis().to_string(),
        )
        .create_with_context(Assignment::new(lag.new_client()))
        .context("creating the consumer")?;
    kafka.subscribe(&[&settings.topic]).context("subscribing")?;
    Ok(kafka)
}

/// Resumes the partitions when it is dropped, even if the wait itself is dropped midway.
struct Paused<'a> {
    source: &'a Source,
    partitions: Option<TopicPartitionList>,
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        let kafka = &self.source.kafka;
        // Includes partitions that were revoked during the wait: otherwise they would still be
        // paused when they are assigned again.
        let all = [self.partitions.take(), kafka.assignment().ok()];
        for partitions in all.into_iter().flatten() {
            let _ = kafka.resume(&partitions);
        }
    }
}
