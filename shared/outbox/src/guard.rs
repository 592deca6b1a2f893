//! Notices that the broker has lost events that it acknowledged, and publishes them again.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use service_kit::progress::Progress;
use service_kit::{database, min_interval};
use sqlx::{PgConnection, PgPool};
use telemetry::metric;
use tokio_util::sync::CancellationToken;
use topic_log::{Compared, Log, Position, Presence};
use uuid::Uuid;

use crate::positions::{self, Checkpoint, MINUTE};
use crate::{Wake, republication, republish};

/// How often the guard checks. Each check reads some messages of each Kafka partition.
const INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of checkpoints per Kafka partition that a check verifies, newest first. After the first check, only those
/// that may have been recorded since the previous one. More than one, because relays may record valid positions in the new log
/// before the guard checks; the older ones still prove the loss.
const CHECKPOINTS_MAX: i64 = 50;
/// Longest time for one check, with a republication of everything.
const CHECK_MAX: Duration = Duration::from_secs(3_600);
/// More checkpoints than a partition can have.
const ALL: i64 = i64::MAX;
const REASON: &str = "the broker lost delivered events";

/// Compares the positions of delivered events with the topic. Every replica may run one: a loss that
/// two of them notice is republished as one.
pub struct Guard {
    pool: PgPool,
    log: Log,
    wake: Wake,
    /// The highest position in each partition that the last check found intact. A relay that continues after a loss may
    /// have replaced its row since.
    intact: Mutex<BTreeMap<i32, Intact>>,
}

/// A checkpoint that was in the topic.
#[derive(Clone, Debug)]
struct Intact {
    checkpoint: Checkpoint,
    /// The order of its event.
    subject: Uuid,
}

/// What a check has read back of one partition.
enum ReadBack {
    Lost(Checkpoint),
    /// The highest position; `None` if there was nothing to read.
    Intact(Option<Intact>),
}

/// The outcome of one check.
#[derive(Debug, PartialEq, Eq)]
pub enum GuardOutcome {
    /// The broker has what it acknowledged.
    Intact,
    /// The topic was missing. The guard has created it.
    Created,
    /// The broker has lost events, or a republication was in progress. This many are published again.
    Republished(u64),
}

impl Guard {
    pub fn new(pool: PgPool, brokers: &str, topic: &str, wake: Wake) -> anyhow::Result<Self> {
        Ok(Self {
            pool,
            log: Log::open(brokers, topic)?,
            wake,
            intact: Mutex::default(),
        })
    }

    /// Checks immediately and then at intervals, until shutdown. While the database or the broker is
    /// unreachable, nothing can be compared.
    pub async fn run(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        // A counter that was never increased is not exported, and no alert could use it.
        metrics::counter!(metric::OUTBOX_DATA_LOSSES).increment(0);
        let mut checks = min_interval(INTERVAL);
        let progress = Progress::current(CHECK_MAX);
        let watch = async {
            loop {
                checks.tick().await;
                let _running = progress.step();
                if let Err(error) = self.step().await {
                    let error = format!("{error:#}");
                    tracing::debug!(error, "topic not compared with delivered events");
                }
            }
        };
        tokio::select! {
            () = watch => {}
            () = shutdown.cancelled() => {}
        }
        Ok(())
    }

    /// One check. Continues a republication that was interrupted.
    pub async fn step(&self) -> anyhow::Result<GuardOutcome> {
        let mut connection = database::acquire(&self.pool).await.context("connecting")?;
        if republication::find(&mut connection).await?.is_none() {
            let known = positions::partitions(&mut connection).await?;
            // Nothing was delivered yet, so nothing can be lost.
            let Some(last) = known.last() else {
                return Ok(GuardOutcome::Intact);
            };
            if !self.log.exists().await? {
                self.log.create(last + 1).await?;
                tracing::error!(partitions = last + 1, "topic was missing, created it again");
                return Ok(GuardOutcome::Created);
            }
            let lost = self.lost(&mut connection, &known).await?;
            if lost.is_empty() {
                return Ok(GuardOutcome::Intact);
            }
            self.begin(&mut connection, &lost).await?;
        }
        drop(connection);
        let republished = republish::resume(&self.pool).await?;
        self.wake.wake();
        Ok(GuardOutcome::Republished(republished))
    }

    /// Stores the republication, then forgets the wrong positions: until then they are the only proof of
    /// the loss.
    async fn begin(
        &self,
        connection: &mut PgConnection,
        lost: &[Checkpoint],
    ) -> anyhow::Result<()> {
        let since = lost.iter().map(|it| it.oldest_created_at).min();
        let since = since.unwrap_or_default();
        metrics::counter!(metric::OUTBOX_DATA_LOSSES).increment(1);
        tracing::error!(%since, "broker lost delivered events, publishing them again");
        republish::begin(&self.pool, since, REASON).await?;
        self.lock_intact().clear();
        for checkpoint in lost {
            positions::forget(connection, checkpoint).await?;
        }
        Ok(())
    }

    /// The checkpoints whose events are gone, of all partitions.
    async fn lost(
        &self,
        connection: &mut PgConnection,
        partitions: &[i32],
    ) -> anyhow::Result<Vec<Checkpoint>> {
        let mut lost = Vec::new();
        for partition in partitions {
            let mut checked = positions::newest(connection, *partition, CHECKPOINTS_MAX).await?;
            let intact = self.lock_intact().get(partition).cloned();
            if let Some(Intact { checkpoint, .. }) = &intact {
                checked.retain(|it| may_be_new(it, checkpoint));
            }
            let first = match self.read_back(checked).await? {
                ReadBack::Lost(first) => Some(first),
                ReadBack::Intact(highest) => {
                    let first = self.lost_since(connection, intact).await?;
                    // The proof of a loss stays until the republication has begun.
                    if first.is_none() {
                        let mut intact = self.lock_intact();
                        intact.extend(highest.map(|it| (*partition, it)));
                    }
                    first
                }
            };
            if let Some(first) = first {
                let mut older = positions::newest(connection, *partition, ALL).await?;
                older.retain(|it| it.minute <= first.minute);
                lost.extend(self.lost_among(older).await?);
                lost.push(first);
            }
        }
        Ok(lost)
    }

    /// The checkpoint that an earlier check found intact, if its event is gone. But if the event was published again since,
    /// its old position proves nothing: another replica may have repaired the loss.
    async fn lost_since(
        &self,
        connection: &mut PgConnection,
        intact: Option<Intact>,
    ) -> anyhow::Result<Option<Checkpoint>> {
        let Some(Intact {
            checkpoint,
            subject,
        }) = intact
        else {
            return Ok(None);
        };
        if !self.is_lost(&checkpoint).await? {
            return Ok(None);
        }
        let published_at = positions::published_at(connection, &checkpoint, subject).await?;
        if published_at.is_some_and(|at| at <= checkpoint.read_at) {
            return Ok(Some(checkpoint));
        }
        self.lock_intact().remove(&checkpoint.position.partition);
        Ok(None)
    }

    /// Reads checkpoints of one partition back, until one is lost.
    async fn read_back(&self, checked: Vec<Checkpoint>) -> anyhow::Result<ReadBack> {
        let mut highest: Option<Intact> = None;
        for checkpoint in checked {
            let found = self.compare(&checkpoint).await?;
            if found.presence == Presence::Lost {
                return Ok(ReadBack::Lost(checkpoint));
            }
            let offset = highest.as_ref().map(|it| it.checkpoint.position.offset);
            if let Some(subject) = found.subject
                && offset.is_none_or(|offset| offset < checkpoint.position.offset)
            {
                highest = Some(Intact {
                    checkpoint,
                    subject,
                });
            }
        }
        Ok(ReadBack::Intact(highest))
    }

    /// The checkpoints of one partition whose events are gone. `all` are those up to a lost one, newest first. A log loses
    /// its end, so a binary search finds the oldest. Minutes of several replicas overlap, so the neighbours of the
    /// oldest count as lost too.
    async fn lost_among(&self, mut all: Vec<Checkpoint>) -> anyhow::Result<Vec<Checkpoint>> {
        let (mut lost, mut present) = (0, all.len());
        while lost < present {
            let middle = usize::midpoint(lost, present);
            if self.is_lost(&all[middle]).await? {
                lost = middle + 1;
            } else {
                present = middle;
            }
        }
        let oldest = lost.checked_sub(1).map(|at| all[at].minute);
        all.retain(|it| oldest.is_some_and(|oldest| it.minute + MINUTE > oldest));
        Ok(all)
    }

    fn lock_intact(&self) -> MutexGuard<'_, BTreeMap<i32, Intact>> {
        self.intact.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn is_lost(&self, checkpoint: &Checkpoint) -> anyhow::Result<bool> {
        Ok(self.compare(checkpoint).await?.presence == Presence::Lost)
    }

    async fn compare(&self, checkpoint: &Checkpoint) -> anyhow::Result<Compared> {
        let Position { partition, offset } = checkpoint.position;
        let event = (offset, checkpoint.event_id);
        self.log.compare(partition, Some(event)).await
    }
}

/// Whether a relay may have recorded this checkpoint since the last check, which found `intact`. Another replica may still
/// update a minute that began earlier, or be slow to record it. If the database's clock was set back, only the offset says
/// what is new.
fn may_be_new(checkpoint: &Checkpoint, intact: &Checkpoint) -> bool {
    checkpoint.minute + 2 * MINUTE > intact.minute
        || checkpoint.position.offset > intact.position.offset
}
