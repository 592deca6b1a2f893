//! Samples the running system once a second: accepted and shipped orders, CPU time and memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use chrono::{DateTime, Utc};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use sqlx::PgPool;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::target::Target;
use crate::measure::usage::{CONSOLE_QUERIES, Meters};

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Sample {
    pub(super) at_s: f64,
    pub(super) accepted: u64,
    pub(super) shipped: u64,
}

impl Sample {
    /// Accepted and not yet shipped. The two counts are not read at the same instant, and an order may
    /// ship before its customer has the response, so the difference may be negative. A negative
    /// difference counts as 0.
    pub(super) fn backlog(&self) -> u64 {
        self.accepted.saturating_sub(self.shipped)
    }
}

#[derive(Default)]
pub(super) struct Samples {
    pub(super) orders: Vec<Sample>,
    pub(super) meters: Meters,
}

/// Samples until `end` is cancelled, and then once more.
pub(super) async fn run(
    target: &Target,
    orders: &PgPool,
    accepted: Arc<AtomicU64>,
    end: CancellationToken,
) -> anyhow::Result<Samples> {
    let mut samples = Samples::default();
    let since = Utc::now();
    let started = Instant::now();
    let bar = progress_bar();
    let mut ticks = tokio::time::interval(SAMPLE_INTERVAL);
    // A late sample must not be followed by a burst of others.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let last = tokio::select! {
            _ = ticks.tick() => false,
            () = end.cancelled() => true,
        };
        let mut pids = target.pids();
        pids.extend(console_backends(orders).await);
        samples.meters.sample(&pids);
        let shipped = shipped_since(orders, since).await?;
        let accepted = accepted.load(Ordering::Relaxed);
        samples.orders.push(Sample {
            at_s: started.elapsed().as_secs_f64(),
            accepted,
            shipped,
        });
        bar.set_message(format!(
            "{accepted} accepted, {shipped} shipped, {} not yet shipped",
            accepted.saturating_sub(shipped)
        ));
        if last {
            bar.finish_and_clear();
            return Ok(samples);
        }
    }
}

/// The processes of Postgres that serve the console. Without permission to see them there are none.
async fn console_backends(orders: &PgPool) -> Vec<(String, u32)> {
    let query = "select pid from pg_stat_activity where application_name = $1";
    let pids: Vec<i32> = sqlx::query_scalar(query)
        .bind(console::APPLICATION_NAME)
        .fetch_all(orders)
        .await
        .unwrap_or_default();
    let pids = pids.into_iter().filter_map(|pid| u32::try_from(pid).ok());
    pids.map(|pid| (CONSOLE_QUERIES.to_owned(), pid)).collect()
}

async fn shipped_since(orders: &PgPool, since: DateTime<Utc>) -> anyhow::Result<u64> {
    let count: i64 =
        sqlx::query_scalar("select count(*) from orders where status = $2 and created_at >= $1")
            .bind(since)
            .bind(endpoints::status::ORDER_SHIPPED)
            .fetch_one(orders)
            .await
            .context("counting shipped orders")?;
    Ok(count.unsigned_abs())
}

fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise}  {msg}") {
        bar.set_style(style);
    }
    bar
}
