//! Notices that the log of a partition was replaced: the topic was recreated, or the broker lost its
//! disk. Offsets of the old log then mean other messages, and the consumer must start over.
//!
//! Neither the end of the log nor the cluster's id proves it, because the new log may have grown past
//! the old offset. The message at a recorded position does: a check reads it back and compares its id.
//! A check records newer positions only after it has found the older one. So the record never moves
//! into a replaced log, even if the consumer continues to read there before the next check.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use service_kit::database::{self, STORE_TIMEOUT};
use sqlx::PgPool;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use topic_log::{Log, Position, Presence};

use crate::batch::Batch;
use crate::consumed::{self, Mark};
use crate::settings::Settings;

pub(crate) struct LogCheck {
    records: Arc<Records>,
    interval: Duration,
    next_check: Instant,
    /// Assigned partitions.
    assigned: BTreeSet<i32>,
    /// Those that were not checked since.
    unchecked: BTreeSet<i32>,
    /// The newest processed messages that are not recorded yet.
    newest: BTreeMap<i32, Mark>,
    /// The offset after the newest processed message, since the partition was assigned.
    next_offsets: BTreeMap<i32, i64>,
    /// Partitions to be read from their start.
    replaced: BTreeSet<i32>,
    running: Option<JoinHandle<Checked>>,
}

/// The recorded positions and the log that they are compared with.
struct Records {
    log: Log,
    pool: PgPool,
    group: String,
    topic: String,
}

#[derive(Default)]
struct Checked {
    replaced: Vec<i32>,
    /// Partitions that could not be checked now.
    failed: Vec<i32>,
    /// Positions that were not recorded for that reason.
    unrecorded: BTreeMap<i32, Mark>,
}

impl LogCheck {
    pub(crate) fn new(settings: &Settings, pool: PgPool) -> anyhow::Result<Self> {
        Ok(Self {
            records: Arc::new(Records {
                log: Log::open(&settings.brokers, &settings.topic)?,
                pool,
                group: settings.group.clone(),
                topic: settings.topic.clone(),
            }),
            interval: settings.log_check_interval,
            next_check: Instant::now(),
            assigned: BTreeSet::new(),
            unchecked: BTreeSet::new(),
            newest: BTreeMap::new(),
            next_offsets: BTreeMap::new(),
            replaced: BTreeSet::new(),
            running: None,
        })
    }

    /// These partitions were assigned. They are checked soon.
    pub(crate) fn assigned(&mut self, partitions: Vec<i32>) {
        self.assigned.extend(&partitions);
        self.unchecked.extend(partitions);
        self.next_check = Instant::now();
    }

    /// These partitions belong to another consumer now, which checks them itself.
    pub(crate) fn revoked(&mut self, partitions: &[i32]) {
        let is_kept = |partition: &i32| !partitions.contains(partition);
        self.assigned.retain(is_kept);
        self.unchecked.retain(is_kept);
        self.replaced.retain(is_kept);
        self.newest.retain(|partition, _| is_kept(partition));
        self.next_offsets.retain(|partition, _| is_kept(partition));
    }

    /// The messages of this batch are committed.
    pub(crate) fn processed(&mut self, batch: &Batch) {
        for (partition, first_offset, next_offset) in batch.ranges() {
            let known = self.next_offsets.insert(partition, next_offset);
            // The client found its offset outside the log and went back to the start. The group's
            // offset stays behind in the old log until it is committed again.
            if known.is_some_and(|known| first_offset < known) {
                self.replaced.insert(partition);
            }
        }
        self.newest.extend(batch.marks());
    }

    /// Starts a check if one is due, and takes the result of the last one. Never waits.
    pub(crate) async fn poll(&mut self) {
        if let Some(running) = self.running.take_if(|running| running.is_finished()) {
            // A check that panicked is repeated with the next messages.
            let checked = running.await.unwrap_or_default();
            self.take(checked);
        }
        let is_due = Instant::now() >= self.next_check;
        let has_work = !self.unchecked.is_empty() || !self.newest.is_empty();
        if self.running.is_some() || !is_due || !has_work || !self.replaced.is_empty() {
            return;
        }
        self.next_check = Instant::now() + self.interval;
        let newest = std::mem::take(&mut self.newest);
        let mut partitions = std::mem::take(&mut self.unchecked);
        partitions.extend(newest.keys());
        let records = self.records.clone();
        self.running = Some(tokio::spawn(async move {
            records.check(partitions, newest).await
        }));
    }

    /// Partitions that were revoked during the check do not count.
    fn take(&mut self, checked: Checked) {
        let is_assigned = |partition: &i32| self.assigned.contains(partition);
        let replaced = checked.replaced.into_iter().filter(is_assigned);
        self.replaced.extend(replaced);
        let failed = checked.failed.into_iter().filter(is_assigned);
        self.unchecked.extend(failed);
        for (partition, mark) in checked.unrecorded {
            if self.assigned.contains(&partition) {
                self.newest.entry(partition).or_insert(mark);
            }
        }
    }

    /// The partitions whose log was replaced, for [`Self::started_over`].
    pub(crate) fn replaced(&self) -> Vec<i32> {
        self.replaced.iter().copied().collect()
    }

    /// The consumer reads this partition from its start: the old position is forgotten.
    pub(crate) async fn started_over(&mut self, partition: i32) -> anyhow::Result<()> {
        let Records {
            pool, group, topic, ..
        } = &*self.records;
        let forget = async {
            let mut connection = database::acquire(pool).await?;
            consumed::forget(&mut connection, group, topic, partition).await
        };
        database::query_with_timeout(STORE_TIMEOUT, forget).await?;
        self.replaced.remove(&partition);
        self.newest.remove(&partition);
        self.next_offsets.remove(&partition);
        Ok(())
    }
}

impl Records {
    /// Compares the recorded position of each partition with the log. Records the newer position if
    /// the old one is found.
    async fn check(&self, partitions: BTreeSet<i32>, newest: BTreeMap<i32, Mark>) -> Checked {
        match self.try_check(&partitions, newest.clone()).await {
            Ok(checked) => checked,
            Err(error) => {
                let error = format!("{error:#}");
                tracing::debug!(error, "positions not checked");
                Checked {
                    failed: partitions.into_iter().collect(),
                    unrecorded: newest,
                    ..Checked::default()
                }
            }
        }
    }

    async fn try_check(
        &self,
        partitions: &BTreeSet<i32>,
        mut newest: BTreeMap<i32, Mark>,
    ) -> anyhow::Result<Checked> {
        let (group, topic) = (&*self.group, &*self.topic);
        let ids: Vec<i32> = partitions.iter().copied().collect();
        let load = async {
            let mut connection = database::acquire(&self.pool).await?;
            consumed::load(&mut connection, group, topic, &ids).await
        };
        let recorded = database::query_with_timeout(STORE_TIMEOUT, load).await;
        let mut checked = Checked::default();
        for (partition, mark) in recorded.context("reading positions")? {
            match self.is_replaced(partition, mark).await {
                Ok(false) => {}
                Ok(true) => {
                    newest.remove(&partition);
                    checked.replaced.push(partition);
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::debug!(partition, error, "position not checked");
                    let unrecorded = newest.remove_entry(&partition);
                    checked.unrecorded.extend(unrecorded);
                    checked.failed.push(partition);
                }
            }
        }
        if !newest.is_empty() {
            let save = async {
                let mut connection = database::acquire(&self.pool).await?;
                consumed::save(&mut connection, group, topic, &newest).await
            };
            let saved = database::query_with_timeout(STORE_TIMEOUT, save).await;
            saved.context("recording positions")?;
        }
        Ok(checked)
    }

    async fn is_replaced(&self, partition: i32, mark: Mark) -> anyhow::Result<bool> {
        let offset = mark.offset;
        let position = Position { partition, offset };
        let presence = self.log.presence(mark.event_id, position).await?;
        Ok(presence == Presence::Lost)
    }
}
