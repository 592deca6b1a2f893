//! Sends the orders of a plan. In a closed loop each client waits for its response. In an open loop
//! the schedule is fixed and latency counts from the scheduled time. So requests that a stalled system
//! delays count with their full latency.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::customer::Customers;
use super::http::Pool;
use super::request::Mix;
use super::tally::Tally;

/// What to send, how fast, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) arrivals: Arrivals,
    pub(crate) stop_after: StopAfter,
    pub(crate) mix: Mix,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Arrivals {
    ClosedLoop { clients: usize },
    OpenLoop { rate_per_s: f64 },
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum StopAfter {
    Elapsed(Duration),
    Accepted(u64),
}

/// The result of a drive. `window` ends with the last scheduled request; late retries come after it.
pub(crate) struct DriveResult {
    /// Identifies the requests, for [`replay`](super::replay::run).
    pub(crate) run: u32,
    pub(crate) tally: Tally,
    pub(crate) window: Duration,
    pub(crate) accepted_in_window: u64,
}

/// Runs the plan on its own thread.
pub(crate) async fn run(
    plan: Plan,
    urls: Vec<String>,
    accepted: Arc<AtomicU64>,
) -> anyhow::Result<DriveResult> {
    on_own_thread(move || async move { drive(plan, &urls, accepted).await }).await
}

/// Runs work of the generator on its own single-threaded runtime, without work stealing and wake-ups across cores.
/// The sampler runs on another thread and does not delay it.
pub(super) async fn on_own_thread<T, F>(
    work: impl FnOnce() -> F + Send + 'static,
) -> anyhow::Result<T>
where
    T: Send + 'static,
    F: Future<Output = anyhow::Result<T>>,
{
    // Ends the thread when the caller is cancelled. Otherwise a closed loop whose system has stopped would keep the
    // program from ending.
    let cancelled = CancellationToken::new();
    let _cancel = cancelled.clone().drop_guard();
    tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.context("starting the load generator's runtime")?;
        runtime.block_on(async {
            let worked = cancelled.run_until_cancelled(work()).await;
            worked.context("cancelled")?
        })
    })
    .await
    .context("the load generator panicked")?
}

async fn drive(
    plan: Plan,
    urls: &[String],
    accepted: Arc<AtomicU64>,
) -> anyhow::Result<DriveResult> {
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
    match plan.arrivals {
        Arrivals::ClosedLoop { clients } => {
            closed_loop(&customers, clients, plan.stop_after).await;
        }
        Arrivals::OpenLoop { rate_per_s } => {
            open_loop(&customers, rate_per_s, plan.stop_after).await;
        }
    }
    let window = started.elapsed();
    let accepted_in_window = accepted.load(Ordering::Relaxed);
    customers.finish().await;
    Ok(DriveResult {
        run,
        tally: customers.take_tally()?,
        window,
        accepted_in_window,
    })
}

async fn closed_loop(customers: &Arc<Customers>, clients: usize, stop_after: StopAfter) {
    let started = Instant::now();
    let next = Arc::new(AtomicU64::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..clients {
        let (customers, next) = (Arc::clone(customers), Arc::clone(&next));
        workers.spawn(async move {
            while !stop_after.is_reached(started.elapsed(), customers.accepted()) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                customers.order(index, Instant::now()).await;
            }
        });
    }
    workers.join_all().await;
}

async fn open_loop(customers: &Arc<Customers>, rate_per_s: f64, stop_after: StopAfter) {
    let started = Instant::now();
    let arrivals = TaskTracker::new();
    for index in 0.. {
        let offset = Duration::from_secs_f64(index as f64 / rate_per_s);
        if stop_after.is_reached(offset, customers.accepted()) {
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

impl StopAfter {
    fn is_reached(self, elapsed: Duration, accepted: u64) -> bool {
        match self {
            StopAfter::Elapsed(limit) => elapsed >= limit,
            StopAfter::Accepted(count) => accepted >= count,
        }
    }
}

/// Converts the monotonic clock of the latencies to the wall clock that Postgres writes into rows.
/// This needs the system to run on the same machine.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
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

    pub(crate) fn unix_us(&self, at: Instant) -> i64 {
        let ahead = at.saturating_duration_since(self.instant).as_micros() as i64;
        let behind = self.instant.saturating_duration_since(at).as_micros() as i64;
        self.unix_us + ahead - behind
    }
}
