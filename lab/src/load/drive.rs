//! The drive: arrivals, closed loop (each client waits for its answer) or open loop (a fixed schedule
//! that does not care how the system feels; latency counts from the scheduled moment, so a stalled
//! system cannot hide behind requests that were never sent).

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::customer::Customers;
use super::http::Pool;
use super::request::Mix;
use super::tally::Tally;

/// What to send, how fast, how long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) pace: Pace,
    pub(super) until: Until,
    pub(super) mix: Mix,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Pace {
    Closed { clients: usize },
    Open { rate_per_s: f64 },
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    Elapsed(Duration),
    Accepted(u64),
}

/// What came of it. `window` ends with the last scheduled request; late retries come after it.
pub(super) struct Driven {
    pub(super) tally: Tally,
    pub(super) window: Duration,
    pub(super) accepted_in_window: u64,
}

/// Runs the plan on one thread of its own: no work stealing, no wake-ups across cores, and its CPU
/// time stays out of the way of the sampler's.
pub(super) async fn run(
    plan: Plan,
    urls: Vec<String>,
    accepted: Arc<AtomicU64>,
) -> anyhow::Result<Driven> {
    tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime
            .context("starting the generator's runtime")?
            .block_on(drive(plan, &urls, accepted))
    })
    .await
    .context("the generator died")?
}

async fn drive(plan: Plan, urls: &[String], accepted: Arc<AtomicU64>) -> anyhow::Result<Driven> {
    let pool = Pool::new(urls)?;
    let run = rand::random();
    let customers = Arc::new(Customers::new(
        pool,
        run,
        plan.mix,
        Clock::start(),
        Arc::clone(&accepted),
    )?);
    let started = Instant::now();
    match plan.pace {
        Pace::Closed { clients } => closed_loop(&customers, clients, plan.until).await,
        Pace::Open { rate_per_s } => open_loop(&customers, rate_per_s, plan.until).await,
    }
    let window = started.elapsed();
    let accepted_in_window = accepted.load(Ordering::Relaxed);
    customers.finish().await;
    Ok(Driven {
        tally: customers.take_tally()?,
        window,
        accepted_in_window,
    })
}

async fn closed_loop(customers: &Arc<Customers>, clients: usize, until: Until) {
    let started = Instant::now();
    let next = Arc::new(AtomicU64::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..clients {
        let (customers, next) = (Arc::clone(customers), Arc::clone(&next));
        workers.spawn(async move {
            while !until.reached(started.elapsed(), customers.accepted()) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                customers.order(index, Instant::now()).await;
            }
        });
    }
    workers.join_all().await;
}

async fn open_loop(customers: &Arc<Customers>, rate_per_s: f64, until: Until) {
    let started = Instant::now();
    let arrivals = TaskTracker::new();
    for index in 0.. {
        let offset = Duration::from_secs_f64(index as f64 / rate_per_s);
        if until.reached(offset, customers.accepted()) {
            break;
        }
        let due = started + offset;
        tokio::time::sleep_until(due).await;
        let customers = Arc::clone(customers);
        arrivals.spawn(async move { customers.order(index, due).await });
    }
    arrivals.close();
    arrivals.wait().await;
}

impl Until {
    fn reached(self, elapsed: Duration, accepted: u64) -> bool {
        match self {
            Until::Elapsed(limit) => elapsed >= limit,
            Until::Accepted(count) => accepted >= count,
        }
    }
}

/// Joins the monotonic clock of the latencies with the wall clock that Postgres writes into rows.
/// Both are this machine's; an attached system lives here as well.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    instant: Instant,
    unix_us: i64,
}

impl Clock {
    fn start() -> Self {
        let since_epoch = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            instant: Instant::now(),
            unix_us: since_epoch.as_micros() as i64,
        }
    }

    pub(super) fn unix_us(&self, at: Instant) -> i64 {
        let ahead = at.saturating_duration_since(self.instant).as_micros() as i64;
        let behind = self.instant.saturating_duration_since(at).as_micros() as i64;
        self.unix_us + ahead - behind
    }
}
