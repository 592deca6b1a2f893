//! The Kafka client of a consumer: receives messages, stores offsets, stays in the group.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use events::EventType;
use futures_util::FutureExt as _;
use rdkafka::consumer::{CommitMode, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::{Offset, TopicPartitionList};
use telemetry::metric;
use tokio::time::Instant;

use crate::assignment::Changes;
use crate::batch::Batch;
use crate::checkpoint::Checkpoint;
use crate::client::{self, Client};
use crate::lag::Lag;
use crate::log_check::CommittableOffset;
use crate::settings::Settings;

/// Longest wait for the broker while a partition is set back to its start.
const BROKER_TIMEOUT: Duration = Duration::from_secs(10);
/// A consumer that is fenced this many times within [`FENCED_WITHIN`] ends: another process uses its name.
const FENCED_MAX: usize = 3;
const FENCED_WITHIN: Duration = Duration::from_secs(60);
/// How often the same error of the client is logged. During an outage there are many in a second.
const ERROR_LOG_INTERVAL: Duration = Duration::from_secs(10);
/// A client that misses this many reports of its statistics hangs.
const REPORTS_MISSED_MAX: u32 = 5;

pub(crate) struct Source {
    kafka: Client,
    settings: Settings,
    /// The client can never continue, because another one joined the group under its name.
    is_fenced: AtomicBool,
    /// When clients were fenced, within the last [`FENCED_WITHIN`].
    fenced_at: Vec<Instant>,
    /// All brokers became unreachable while this client had partitions.
    brokers_lost: AtomicBool,
    /// The last error that was logged, and when.
    last_logged: Mutex<Option<(KafkaError, Instant)>>,
    /// Since when the client should have delivered something.
    overdue_since: Option<Instant>,
    /// Partitions gained and lost that the consumer does not know yet.
    changes: Mutex<Changes>,
    pub(crate) lag: Lag,
}

impl Source {
    pub(crate) fn subscribe(settings: &Settings) -> anyhow::Result<Self> {
        let lag = Lag::default();
        Ok(Self {
            kafka: client::subscribe(settings, &lag)?,
            settings: settings.clone(),
            is_fenced: AtomicBool::new(false),
            fenced_at: Vec::new(),
            brokers_lost: AtomicBool::new(false),
            last_logged: Mutex::default(),
            overdue_since: None,
            changes: Mutex::default(),
            lag,
        })
    }

    /// Replaces a client that has lost all its brokers, and drops the messages it had taken.
    ///
    /// Brokers that return with their data deliver the messages again. If they return without it,
    /// the old client remembers positions in a log that no longer exists. It may wait at such a
    /// position forever, and would commit offsets that now belong to other messages.
    pub(crate) fn reconnect_if_lost(&mut self, batch: &mut Batch) -> anyhow::Result<()> {
        if self.is_fenced.swap(false, Ordering::AcqRel) {
            return self.replace_fenced_client(batch);
        }
        if !self.brokers_lost.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        tracing::info!("all brokers lost, joining the group again");
        self.replace_client(batch, "brokers lost")
    }

    /// Replaces a fenced client: another client joined the group under its name. It may have been the client itself:
    /// if a broker dies before it responds to a join, the client joins again. Two processes with one name fence each
    /// other again and again, so one of them must end.
    fn replace_fenced_client(&mut self, batch: &mut Batch) -> anyhow::Result<()> {
        self.fenced_at.retain(|at| at.elapsed() < FENCED_WITHIN);
        self.fenced_at.push(Instant::now());
        let group = &self.settings.group;
        let name = self.settings.instance_id.as_deref().unwrap_or_default();
        ensure!(
            self.fenced_at.len() < FENCED_MAX,
            "another process joined the group {group} as {name}: set a different instance id \
             (KAFKA_GROUP_INSTANCE_ID) for each process"
        );
        tracing::warn!(
            name,
            "another client has this name, joining the group again"
        );
        self.replace_client(batch, "fenced")
    }

    /// Replaces a client that is cut off, or delivers nothing for too long although it should.
    /// Returns whether the client is overdue. Called while the consumer waits for messages.
    pub(crate) fn reconnect_if_hung(&mut self, batch: &mut Batch) -> anyhow::Result<bool> {
        if batch.is_empty()
            && self
                .kafka
                .context()
                .is_cut_off(self.settings.reconnect_after)
        {
            tracing::info!("no broker connected, starting a new client");
            self.replace_client(batch, "disconnected")?;
        }
        let report_max = REPORTS_MISSED_MAX * self.settings.statistics_interval;
        let is_overdue = batch.is_empty() && self.kafka.context().is_overdue(report_max);
        if !is_overdue {
            self.overdue_since = None;
            return Ok(false);
        }
        let since = *self.overdue_since.get_or_insert_with(Instant::now);
        if since.elapsed() > self.settings.client_stall_max {
            let assigned = self.has_partitions();
            let lag = self.lag.messages();
            tracing::warn!(assigned, lag, "client delivers nothing, starting a new one");
            self.replace_client(batch, "hung")?;
        }
        Ok(true)
    }

    fn replace_client(&mut self, batch: &mut Batch, reason: &'static str) -> anyhow::Result<()> {
        metrics::counter!(metric::INBOX_CLIENTS_REPLACED, "reason" => reason).increment(1);
        *batch = Batch::default();
        self.overdue_since = None;
        let new = client::subscribe(&self.settings, &self.lag)?;
        self.kafka = new;
        // What the old client gained and lost no longer counts. A partition that stayed behind as assigned would never
        // be revoked, and the check of the log would wait for it.
        *self.lock_changes() = Changes {
            all_revoked: true,
            ..Changes::default()
        };
        Ok(())
    }

    pub(crate) fn client(&self) -> &Client {
        &self.kafka
    }

    /// Leaves the group.
    pub(crate) async fn close(self) {
        self.kafka.close().await;
    }

    /// Partitions gained and lost since the last call.
    pub(crate) fn take_changes(&self) -> Changes {
        std::mem::take(&mut *self.lock_changes())
    }

    /// Reads a partition from its start, and moves the group's offset there. Otherwise a restart in
    /// the middle of the replay would continue at the old offset.
    pub(crate) async fn start_over(&self, partition: i32) -> anyhow::Result<()> {
        let topic = self.settings.topic.clone();
        let rewind = self.kafka.blocking(move |kafka| {
            let ends = kafka.fetch_watermarks(&topic, partition, BROKER_TIMEOUT);
            let (first, _) = ends.context("reading the start of the log")?;
            let mut start = TopicPartitionList::new();
            start.add_partition_offset(&topic, partition, Offset::Offset(first))?;
            kafka.store_offsets(&start).context("storing the offset")?;
            let committed = kafka.commit(&start, CommitMode::Sync);
            committed.context("committing the offset")?;
            let sought = kafka.seek(&topic, partition, Offset::Offset(first), BROKER_TIMEOUT);
            sought.context("going to the start of the log")
        });
        let rewound = tokio::time::timeout(2 * BROKER_TIMEOUT, rewind).await;
        rewound.context("the broker did not respond")?
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
            Err(_) => return self.forget_revoked(batch),
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
        let Changes {
            revoked, assigned, ..
        } = self.kafka.context().take_changes();
        if !revoked.is_empty() {
            batch.forget(&revoked);
        }
        let mut changes = self.lock_changes();
        changes.assigned.retain(|it| !revoked.contains(it));
        changes.revoked.extend(revoked);
        changes.assigned.extend(assigned);
    }

    fn lock_changes(&self) -> std::sync::MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the offsets in the client, which commits them to the group within a second.
    pub(crate) fn store_offsets(&self, committable: &[CommittableOffset]) {
        if committable.is_empty() {
            return;
        }
        let topic = &self.settings.topic;
        let mut offsets = TopicPartitionList::new();
        for CommittableOffset {
            partition,
            next_offset,
            checkpoint,
        } in committable
        {
            let mut element = offsets.add_partition(topic, *partition);
            // Fails only for an invalid offset; these offsets came from the broker.
            let _ = element.set_offset(Offset::Offset(*next_offset));
            element.set_metadata(Checkpoint::to_metadata(*checkpoint));
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
                let last_logged = self.last_logged.lock();
                let mut last_logged = last_logged.unwrap_or_else(PoisonError::into_inner);
                if should_log(&error, last_logged.as_ref()) {
                    tracing::warn!(%error, "receive failed");
                    *last_logged = Some((error.clone(), Instant::now()));
                }
                if matches!(error, KafkaError::MessageConsumptionFatal(_)) {
                    self.is_fenced.store(true, Ordering::Release);
                }
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

    pub(crate) fn pause(&self) -> Option<TopicPartitionList> {
        let assigned = self.kafka.assignment().ok()?;
        let _ = self.kafka.pause(&assigned);
        Some(assigned)
    }
}

fn should_log(error: &KafkaError, last_logged: Option<&(KafkaError, Instant)>) -> bool {
    last_logged.is_none_or(|(last, at)| last != error || at.elapsed() > ERROR_LOG_INTERVAL)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn replaced_client_leaves_no_partition_behind() {
        let settings = Settings::new("127.0.0.1:1", "topic", "group");
        let mut source = Source::subscribe(&settings).unwrap();
        // The consumer does not know this one yet. The client has lost it, and says nothing.
        source.lock_changes().assigned.push(0);
        source
            .replace_client(&mut Batch::default(), "fenced")
            .unwrap();
        let expected = Changes {
            all_revoked: true,
            ..Changes::default()
        };
        assert_eq!(source.take_changes(), expected);
        assert_eq!(source.take_changes(), Changes::default(), "only once");
    }

    #[tokio::test(start_paused = true)]
    async fn repeated_error_is_logged_at_intervals() {
        let down = KafkaError::MessageConsumption(RDKafkaErrorCode::AllBrokersDown);
        assert!(should_log(&down, None));
        let last_logged = (down.clone(), Instant::now());
        assert!(!should_log(&down, Some(&last_logged)));
        let other = KafkaError::MessageConsumption(RDKafkaErrorCode::BrokerTransportFailure);
        assert!(should_log(&other, Some(&last_logged)));
        tokio::time::advance(2 * ERROR_LOG_INTERVAL).await;
        assert!(should_log(&down, Some(&last_logged)));
    }
}
