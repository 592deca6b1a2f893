//! The queue keeper: finds out which principals have queues, and where each queue begins.
//!
//! A charger reads each queue from a floor, below which no open row is left. Without it, a step would
//! read past all rows that were settled since the oldest snapshot in the database: while a dump
//! or a long query runs, Postgres keeps their index entries. The floor is only an optimisation: an
//! occasional full scan starts at the beginning, so that no row stays below the floor.
//!
//! It also reports how long attempts wait for a charger. Attempts whose outcome is unknown do not count: they wait
//! for the provider.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use leases::{Queues, Starter};
use service_kit::Pressure;
use service_kit::database::{self, Horizon, horizon};
use sqlx::{PgConnection, PgPool};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::charger::{Charger, ChargerQueues, Queue};
use crate::domain::AttemptStatus;
use crate::store::queues;

/// Pause between two steps. A charger reads past the rows that were settled in this time.
const INTERVAL: Duration = Duration::from_millis(250);
/// The same while this process leases nothing. Chargers of other replicas may still settle rows.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);
/// A shorter wait is not reported: a charger takes the attempt in its next step.
const WAIT_MIN: Duration = Duration::from_millis(500);
/// Time between two full scans.
const FULL_SCAN_INTERVAL: Duration = Duration::from_secs(60);
/// Longest time for one step.
const STEP_TIMEOUT: Duration = Duration::from_secs(15);

pub struct QueueKeeper {
    pool: PgPool,
    queues: Arc<ChargerQueues>,
    pressure: Pressure,
    /// Up to when all attempts, and all refunds, are visible.
    attempts: Horizon<DateTime<Utc>>,
    refunds: Horizon<DateTime<Utc>>,
    next_full_scan: Instant,
}

impl QueueKeeper {
    pub fn new(pool: PgPool, queues: Arc<ChargerQueues>, pressure: Pressure) -> Self {
        Self {
            pool,
            queues,
            pressure,
            attempts: Horizon::default(),
            refunds: Horizon::default(),
            next_full_scan: Instant::now() + FULL_SCAN_INTERVAL,
        }
    }

    pub async fn run(mut self, shutdown: CancellationToken) -> anyhow::Result<()> {
        while !shutdown.is_cancelled() {
            let is_full = Instant::now() >= self.next_full_scan;
            tokio::select! {
                step = database::with_timeout(STEP_TIMEOUT, self.step(is_full)) => match step {
                    Ok(()) if is_full => self.next_full_scan = Instant::now() + FULL_SCAN_INTERVAL,
                    Ok(()) => {}
                    Err(error) => {
                        let error = format!("{error:#}");
                        tracing::warn!(error, "queues were not read, retrying");
                    }
                },
                () = shutdown.cancelled() => break,
            }
            let is_active = |queue| self.queues.of(queue).is_active(IDLE_INTERVAL);
            let pause = match Queue::ALL.into_iter().any(is_active) {
                true => INTERVAL,
                false => IDLE_INTERVAL,
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = shutdown.cancelled() => {}
            }
        }
        Ok(())
    }

    /// One step: learns new principals and moves the floors of all queues. A full scan also finds rows
    /// below the floors.
    pub async fn step(&mut self, is_full: bool) -> anyhow::Result<()> {
        let mut connection = database::acquire(&self.pool).await.context("connecting")?;
        let principals = queues::principals(&mut connection)
            .await
            .context("reading the principals")?;
        for queue in Queue::ALL {
            self.queues.of(queue).learn(principals.iter().cloned());
        }
        let now = queues::now(&mut connection)
            .await
            .context("reading the time")?;
        let attempts = visible(&mut connection, &mut self.attempts, "payments", now).await?;
        let refunds = visible(&mut connection, &mut self.refunds, "refunds", now).await?;
        for queue in Queue::ALL {
            let visible = match queue {
                Queue::Fresh | Queue::Unknown => attempts,
                Queue::Refunds => refunds,
            };
            move_floors(
                &mut connection,
                queue,
                self.queues.of(queue),
                visible,
                is_full,
            )
            .await
            .with_context(|| format!("reading the first rows of {queue:?}"))?;
        }
        self.report_waits(&mut connection, now)
            .await
            .context("reading how long attempts wait")
    }

    /// Reports since when the first attempt of each principal waits for a charger.
    async fn report_waits(
        &self,
        connection: &mut PgConnection,
        now: DateTime<Utc>,
    ) -> sqlx::Result<()> {
        let ranges = self.queues.of(Queue::Fresh).due_ranges(now);
        let first = queues::first_attempts(connection, AttemptStatus::Pending, &ranges).await?;
        let waits = ranges.iter().zip(first).filter_map(|(range, first)| {
            let wait = (now - first?).to_std().unwrap_or_default();
            (wait >= WAIT_MIN).then(|| (range.principal.to_string(), wait))
        });
        self.pressure.set_principals(waits.collect());
        Ok(())
    }
}

/// The queue keeper of an unprotected program: reports how long first tries wait in memory.
pub async fn report_waits_in_memory(
    fresh: Starter<Charger>,
    pressure: Pressure,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    while !shutdown.is_cancelled() {
        let mut waits = fresh.waits_in_memory();
        waits.retain(|_, wait| *wait >= WAIT_MIN);
        pressure.set_principals(waits);
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = shutdown.cancelled() => {}
        }
    }
    Ok(())
}

/// The time up to which all rows of the table are visible, if that has moved.
async fn visible(
    connection: &mut PgConnection,
    horizon: &mut Horizon<DateTime<Utc>>,
    table: &str,
    now: DateTime<Utc>,
) -> anyhow::Result<Option<DateTime<Utc>>> {
    let writers = horizon::writers(connection, table)
        .await
        .context("listing the writers")?;
    Ok(horizon.observe(now, writers))
}

async fn move_floors(
    connection: &mut PgConnection,
    queue: Queue,
    queues: &Queues,
    visible: Option<DateTime<Utc>>,
    is_full: bool,
) -> sqlx::Result<()> {
    let ranges = queues.ranges(visible, is_full);
    if ranges.is_empty() {
        return Ok(());
    }
    let first = match queue.attempts() {
        Some(status) => queues::first_attempts(connection, status, &ranges).await?,
        None => queues::first_refunds(connection, &ranges).await?,
    };
    for (range, first) in ranges.iter().zip(first) {
        queues.set_floor(range, first);
    }
    Ok(())
}
