//! Notices that the log of a partition was replaced: the topic was recreated, the broker lost its disk or the newest
//! messages. Offsets of the old log then mean other messages, and the consumer must start over.
//!
//! Neither the end of the log nor the cluster's id proves it, because the new log may have grown past the old offset.
//! The message at a known position does: a check reads it back and compares its id. Two rules keep that proof in the
//! log that the consumer has read:
//!
//! - After an assignment, the check reads the message that was committed with the group's offset. Until it is found, no
//!   newer offset is committed. The consumer already processes messages meanwhile.
//! - Later checks read the newest message that was processed before the check before.
//!
//! Each check also finds the end of the log, which a client that hangs may not know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{Consumer as _, StreamConsumer};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use topic_log::{Compared, Log, Presence};

use crate::assignment::Assignment;
use crate::batch::Batch;
use crate::lag::Lag;
use crate::mark::Mark;
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
    running: Option<JoinHandle<anyhow::Result<Checked>>>,
}

/// What is known of an assigned partition.
#[derive(Default)]
struct Partition {
    /// Distinguishes it from the same partition before a rebalance.
    assignment: u64,
    /// Whether the position from which the consumer continued is in the log.
    is_verified: bool,
    /// What the next check reads, once the position is verified.
    mark: Option<Mark>,
    /// The newest processed message that has an id.
    newest: Option<Mark>,
    /// The offset after the newest processed message.
    next_offset: Option<i64>,
    /// Whether that offset is to be committed.
    is_new: bool,
}

/// An offset that may be committed, with the message that proves it.
pub(crate) struct Progress {
    pub(crate) partition: i32,
    pub(crate) next_offset: i64,
    pub(crate) mark: Option<Mark>,
}

/// A partition to be checked.
struct Question {
    partition: i32,
    assignment: u64,
    /// Whether to read the message that was committed with the group's offset, instead of `mark`.
    is_first: bool,
    mark: Option<Mark>,
    /// What the check after this one reads.
    next_mark: Option<Mark>,
}

/// The partitions that were compared. Those that could not be read are missing.
type Checked = Vec<(Question, Compared)>;

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

    /// These partitions were assigned. They are checked soon.
    pub(crate) fn assigned(&mut self, partitions: &[i32]) {
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

    /// These partitions belong to another consumer now, which checks them itself.
    pub(crate) fn revoked(&mut self, partitions: &[i32]) {
        for partition in partitions {
            self.partitions.remove(partition);
            self.replaced.remove(partition);
        }
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
            partition.is_new = true;
        }
        for (id, mark) in batch.marks() {
            if let Some(partition) = self.partitions.get_mut(&id) {
                partition.newest = Some(mark);
            }
        }
    }

    /// The offsets that may be committed now. Returns each once.
    pub(crate) fn take_progress(&mut self) -> Vec<Progress> {
        let partitions = self.partitions.iter_mut();
        let new = partitions.filter(|(_, it)| it.is_verified && it.is_new);
        new.filter_map(|(id, it)| {
            it.is_new = false;
            Some(Progress {
                partition: *id,
                next_offset: it.next_offset?,
                mark: it.newest.or(it.mark),
            })
        })
        .collect()
    }

    /// Starts a check if one is due, and takes the result of the last one. Never waits.
    pub(crate) async fn poll(&mut self, client: &Arc<StreamConsumer<Assignment>>, lag: &Lag) {
        if let Some(running) = self.running.take_if(|running| running.is_finished()) {
            match running.await.context("checking the log").flatten() {
                Ok(checked) => self.take(checked, lag),
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::debug!(error, "positions not checked");
                }
            }
        }
        let is_due = Instant::now() >= self.next_check;
        if self.running.is_some() || !is_due || !self.replaced.is_empty() {
            return;
        }
        let questions = self.partitions.iter().map(Partition::question);
        let questions: Vec<Question> = questions.collect();
        if questions.is_empty() {
            return;
        }
        self.next_check = Instant::now() + self.interval;
        let (client, log, topic) = (client.clone(), self.log.clone(), self.topic.clone());
        self.running = Some(tokio::spawn(check(client, log, topic, questions)));
    }

    /// Partitions that were revoked during the check do not count.
    fn take(&mut self, checked: Checked, lag: &Lag) {
        for (question, Compared { presence, end }) in checked {
            let Some(partition) = self.partitions.get_mut(&question.partition) else {
                continue;
            };
            if partition.assignment != question.assignment {
                continue;
            }
            lag.found_end(question.partition, end);
            if presence == Presence::Lost {
                partition.is_verified = false;
                self.replaced.insert(question.partition);
            } else {
                partition.is_verified = true;
                partition.mark = question.next_mark.or(question.mark);
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
        if let Some(known) = self.partitions.get_mut(&partition) {
            *known = Partition {
                assignment: known.assignment,
                is_verified: true,
                ..Partition::default()
            };
        }
    }
}

impl Partition {
    fn question((id, this): (&i32, &Self)) -> Question {
        Question {
            partition: *id,
            assignment: this.assignment,
            is_first: !this.is_verified,
            mark: this.mark,
            next_mark: this.newest,
        }
    }
}

/// Compares each partition with the log.
async fn check(
    client: Arc<StreamConsumer<Assignment>>,
    log: Log,
    topic: Arc<str>,
    questions: Vec<Question>,
) -> anyhow::Result<Checked> {
    let first = questions.iter().filter(|it| it.is_first);
    let first: Vec<i32> = first.map(|it| it.partition).collect();
    // The client blocks its thread until the broker responds.
    let load = tokio::task::spawn_blocking(move || committed(&client, &topic, &first));
    let committed = load.await.context("reading the group's offsets")??;
    let mut checked = Checked::new();
    for mut question in questions {
        let partition = question.partition;
        if question.is_first {
            // Missing for a new group, or for an offset that another program has set.
            question.mark = committed.get(&partition).copied();
        }
        let event = question.mark.map(|it| (it.offset, it.event_id));
        match log.compare(partition, event).await {
            Ok(compared) => checked.push((question, compared)),
            Err(error) => {
                let error = format!("{error:#}");
                tracing::debug!(partition, error, "position not checked");
            }
        }
    }
    Ok(checked)
}

/// The messages that were committed with the group's offsets.
fn committed(
    client: &StreamConsumer<Assignment>,
    topic: &str,
    partitions: &[i32],
) -> anyhow::Result<BTreeMap<i32, Mark>> {
    if partitions.is_empty() {
        return Ok(BTreeMap::new());
    }
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        list.add_partition(topic, *partition);
    }
    let committed = client.committed_offsets(list, BROKER_TIMEOUT);
    let committed = committed.context("reading the group's offsets")?;
    let mut marks = BTreeMap::new();
    for element in committed.elements() {
        element.error().context("reading the group's offset")?;
        if let Some(mark) = Mark::from_metadata(element.metadata()) {
            marks.insert(element.partition(), mark);
        }
    }
    Ok(marks)
}
