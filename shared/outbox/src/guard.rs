//! Notices that the broker has lost events that it acknowledged, and publishes them again.

use std::time::Duration;

use anyhow::Context as _;
use service_kit::progress::Progress;
use service_kit::{database, min_interval};
use sqlx::{PgConnection, PgPool};
use telemetry::metric;
use tokio_util::sync::CancellationToken;
use topic_log::{Log, Presence};

use crate::positions::{self, Checkpoint};
use crate::{Wake, republication, republish};

/// How often the guard checks. Each check reads some messages of each Kafka partition.
const INTERVAL: Duration = Duration::from_secs(5);
/// Number of checkpoints that one check verifies, newest first. More than one: after a loss, relays
/// add valid positions in the new log before the guard checks. The older ones still prove the loss.
const CHECKPOINTS_PER_CHECK: i64 = 3;
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
            let newest = positions::newest(connection, *partition, CHECKPOINTS_PER_CHECK).await?;
            for checkpoint in newest {
                if self.is_lost(&checkpoint).await? {
                    let mut all = positions::newest(connection, *partition, ALL).await?;
                    all.retain(|it| it.minute <= checkpoint.minute);
                    lost.extend(self.lost_among(all).await?);
                    break;
                }
            }
        }
        Ok(lost)
    }

    /// The checkpoints of one partition whose events are gone, newest first. The event of the newest is
    /// known to be gone. An older one is gone only if all newer ones are, so a binary search finds the
    /// last.
    async fn lost_among(&self, mut all: Vec<Checkpoint>) -> anyhow::Result<Vec<Checkpoint>> {
        let (mut lost, mut present) = (1, all.len());
        while lost < present {
            let middle = usize::midpoint(lost, present);
            if self.is_lost(&all[middle]).await? {
                lost = middle + 1;
            } else {
                present = middle;
            }
        }
        all.truncate(lost);
        Ok(all)
    }

    async fn is_lost(&self, checkpoint: &Checkpoint) -> anyhow::Result<bool> {
        let presence = self.log.presence(checkpoint.event_id, checkpoint.position);
        Ok(presence.await? == Presence::Lost)
    }
}
