//! Notices that the log of a partition was replaced: the topic was recreated, the broker lost its disk or the newest
//! messages. Offsets of the old log then mean other messages, and the consumer must start over.
//!
//! Neither the end of the log nor the cluster's id proves it, because the new log may have grown past the old offset.
//! The message at a known position does: a check reads it back and compares its id. Two rules keep that proof in the
//! log that the consumer has read:
//!
//! - After an assignment, the check reads the message that was committed with the group's offset. Until it is found, no
//!   newer offset is committed. The consumer processes messages during that time.
//! - Each later check reads the message that was the newest when the previous check began.
//!
//! Each check also finds the end of the log, which a client that hangs may not know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{Consumer as _, StreamConsumer};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use topic_log::{Compared, Log, Presence};

use crate::assignment::{Assignment, Changes};
use crate::batch::Batch;
use crate::checkpoint::Checkpoint;
use crate::client::Client;
use crate::lag::Lag;
use crate::settings::Settings;

/// Longest wait for the group's offsets.
const BROKER_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct LogCheck {
    log: Log,
    topic: Arc<str>,
    interval: Duration,
    next_check: Instant,
    /// The assigned partitions.
    partitions: BTreeMap<i32, Partition>,
    /// Counts assignments.
    assignments: u64,
    /// Partitions to be read from their start.
    replaced: BTreeSet<i32>,
    running: Option<JoinHandle<Checked>>,
}

/// What is known of an assigned partition.
#[derive(Default)]
struct Partition {
    /// Distinguishes it from the same partition before a rebalance.
    assignment: u64,
    /// Whether the position from which the consumer continued is in the log.
    is_verified: bool,
    /// What the next check reads, once the position is verified.
    checkpoint: Option<Checkpoint>,
    /// The newest processed message that has an id.
    newest: Option<Checkpoint>,
    /// The offset after the newest processed message.
    next_offset: Option<i64>,
    /// Whether that offset is to be committed.
    is_uncommitted: bool,
}

/// An offset that may be committed, with the newest message before it.
pub(crate) struct CommittableOffset {
    pub(crate) partition: i32,
    pub(crate) next_offset: i64,
    pub(crate) checkpoint: Option<Checkpoint>,
}

/// A partition to be checked.
struct PartitionCheck {
    partition: i32,
    assignment: u64,
    /// Whether to read the message that was committed with the group's offset, instead of `checkpoint`.
    is_first: bool,
    checkpoint: Option<Checkpoint>,
    /// What the check after this one reads.
    next_checkpoint: Option<Checkpoint>,
}

/// The partitions that were compared. Those that could not be read are missing.
type Checked = Vec<(PartitionCheck, Compared)>;

impl LogCheck {
    pub(crate) fn new(settings: &Settings) -> anyhow::Result<Self> {
        Ok(Self {
            log: Log::open(&settings.brokers, &settings.topic)?,
            topic: settings.topic.as_str().into(),
            interval: settings.log_check_interval,
            next_check: Instant::now(),
            partitions: BTreeMap::new(),
            assignments: 0,
            replaced: BTreeSet::new(),
            running: None,
        })
    }

    /// Follows the client: forgets the partitions that it lost, and checks those that it gained soon. Another consumer
    /// checks the others.
    pub(crate) fn follow(&mut self, changes: &Changes) {
        let is_kept = |id: &i32| !changes.all_revoked && !changes.revoked.contains(id);
        self.partitions.retain(|id, _| is_kept(id));
        self.replaced.retain(is_kept);
        if !changes.assigned.is_empty() {
            self.assigned(&changes.assigned);
        }
    }

    fn assigned(&mut self, partitions: &[i32]) {
        self.assignments += 1;
        for partition in partitions {
            let new = Partition {
                assignment: self.assignments,
                ..Partition::default()
            };
            self.partitions.insert(*partition, new);
        }
        self.next_check = Instant::now();
    }

    /// The messages of this batch are committed.
    pub(crate) fn processed(&mut self, batch: &Batch) {
        for (id, first_offset, next_offset) in batch.ranges() {
            let Some(partition) = self.partitions.get_mut(&id) else {
                continue;
            };
            // The client found its offset outside the log and went back to the start. The group's
            // offset stays behind in the old log until it is committed again.
            if partition.next_offset.is_some_and(|it| first_offset < it) {
                partition.is_verified = false;
                self.replaced.insert(id);
            }
            partition.next_offset = Some(next_offset);
            partition.is_uncommitted = true;
        }
        for (id, checkpoint) in batch.checkpoints() {
            if let Some(partition) = self.partitions.get_mut(&id) {
                partition.newest = Some(checkpoint);
            }
        }
    }

    /// The offsets that may be committed now. Returns each once.
    pub(crate) fn take_committable(&mut self) -> Vec<CommittableOffset> {
        let partitions = self.partitions.iter_mut();
        let new = partitions.filter(|(_, it)| it.is_verified && it.is_uncommitted);
        new.filter_map(|(id, it)| {
            it.is_uncommitted = false;
            Some(CommittableOffset {
                partition: *id,
                next_offset: it.next_offset?,
                checkpoint: it.newest.or(it.checkpoint),
            })
        })
        .collect()
    }

    /// Starts a check if one is due, and takes the result of the last one. Never waits.
    pub(crate) async fn poll(&mut self, client: &Client, lag: &Lag) {
        if let Some(running) = self.running.take_if(|running| running.is_finished()) {
            // A check that panicked is repeated.
            self.take(running.await.unwrap_or_default(), lag);
        }
        let is_due = Instant::now() >= self.next_check;
        if self.running.is_some() || !is_due || !self.replaced.is_empty() {
            return;
        }
        let checks = self.partitions.iter().map(Partition::to_check);
        let checks: Vec<PartitionCheck> = checks.collect();
        if checks.is_empty() {
            return;
        }
        self.next_check = Instant::now() + self.interval;
        let topic = self.topic.clone();
        let first = checks.iter().filter(|it| it.is_first);
        let first: Vec<i32> = first.map(|it| it.partition).collect();
        let committed = (!first.is_empty())
            .then(|| client.blocking(move |kafka| committed(kafka, &topic, &first)));
        self.running = Some(tokio::spawn(check(self.log.clone(), checks, committed)));
    }

    /// Partitions that were revoked during the check do not count.
    fn take(&mut self, checked: Checked, lag: &Lag) {
        for (check, Compared { presence, end, .. }) in checked {
            let Some(partition) = self.partitions.get_mut(&check.partition) else {
                continue;
            };
            if partition.assignment != check.assignment {
                continue;
            }
            lag.found_end(check.partition, end);
            if presence == Presence::Lost {
                partition.is_verified = false;
                self.replaced.insert(check.partition);
            } else {
                partition.is_verified = true;
                partition.checkpoint = check.next_checkpoint.or(check.checkpoint);
            }
        }
    }

    /// The partitions whose log was replaced, for [`Self::started_over`].
    pub(crate) fn replaced(&self) -> Vec<i32> {
        self.replaced.iter().copied().collect()
    }

    /// The consumer reads this partition from its start, and so does the group: every position before is forgotten.
    pub(crate) fn started_over(&mut self, partition: i32) {
        self.replaced.remove(&partition);
        // As after an assignment: a check that is running compares with the old log.
        self.assignments += 1;
        if let Some(known) = self.partitions.get_mut(&partition) {
            *known = Partition {
                assignment: self.assignments,
                is_verified: true,
                ..Partition::default()
            };
        }
    }
}

impl Partition {
    fn to_check((id, this): (&i32, &Self)) -> PartitionCheck {
        PartitionCheck {
            partition: *id,
            assignment: this.assignment,
            is_first: !this.is_verified,
            checkpoint: this.checkpoint,
            next_checkpoint: this.newest,
        }
    }
}

/// Compares each partition with the log. `committed` returns what the group has committed in the partitions that are
/// checked for the first time.
async fn check(
    log: Log,
    checks: Vec<PartitionCheck>,
    committed: Option<impl Future<Output = anyhow::Result<Committed>>>,
) -> Checked {
    let committed = match committed {
        Some(read) => read.await,
        None => Ok(Committed::new()),
    };
    let mut checked = Checked::new();
    for mut check in checks {
        let compared = async {
            if check.is_first {
                let committed = committed.as_ref().map_err(|error| anyhow!("{error:#}"))?;
                let of_group = committed.get(&check.partition);
                check.checkpoint = *of_group
                    .context("the broker returned no offset of the group for this partition")?;
            }
            let event = check.checkpoint.map(|it| (it.offset, it.event_id));
            log.compare(check.partition, event).await
        };
        match compared.await {
            Ok(compared) => checked.push((check, compared)),
            Err(error) => {
                let (partition, error) = (check.partition, format!("{error:#}"));
                if check.is_first {
                    tracing::warn!(
                        partition,
                        error,
                        "checkpoint not verified, retrying; no offset is committed until then"
                    );
                } else {
                    tracing::debug!(partition, error, "checkpoint not read, retrying");
                }
            }
        }
    }
    checked
}

/// What was committed with the group's offset in each partition: nothing for a new group, or for an offset that another
/// program has set. A partition whose offset cannot be read is missing.
type Committed = BTreeMap<i32, Option<Checkpoint>>;

fn committed(
    kafka: &StreamConsumer<Assignment>,
    topic: &str,
    partitions: &[i32],
) -> anyhow::Result<Committed> {
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        list.add_partition(topic, *partition);
    }
    let committed = kafka.committed_offsets(list, BROKER_TIMEOUT);
    let committed = committed.context("reading the group's offsets")?;
    let elements = committed.elements().into_iter();
    let readable = elements.filter(|it| it.error().is_ok());
    Ok(readable
        .map(|it| (it.partition(), Checkpoint::from_metadata(it.metadata())))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(check: &LogCheck) -> (Vec<i32>, Vec<i32>) {
        (check.partitions.keys().copied().collect(), check.replaced())
    }

    #[tokio::test]
    async fn partitions_of_a_replaced_client_are_forgotten() {
        let settings = Settings::new("127.0.0.1:1", "topic", "group");
        let mut check = LogCheck::new(&settings).unwrap();
        check.follow(&Changes {
            assigned: vec![0, 1, 2],
            ..Changes::default()
        });
        check.replaced.extend([0, 1]);
        check.follow(&Changes {
            revoked: vec![0],
            ..Changes::default()
        });
        assert_eq!(known(&check), (vec![1, 2], vec![1]));
        check.follow(&Changes {
            all_revoked: true,
            assigned: vec![2],
            ..Changes::default()
        });
        assert_eq!(known(&check), (vec![2], vec![]));
    }
}
