//! Watches that workers make progress. A worker that hangs is logged, measured and makes its service
//! not ready.
//!
//! A worker marks each step. A step that takes longer than the worker's limit counts as a stall: all
//! waits inside it have their own, shorter limits, so something unforeseen hangs. A worker
//! that waits for work is in no step, and may wait for any time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use telemetry::metric;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::min_interval;

/// How often the watch checks its workers.
const INTERVAL: Duration = Duration::from_secs(1);
/// The start of no step.
const IDLE: u64 = 0;

tokio::task_local! {
    static CURRENT: Progress;
}

/// The progress of one worker. Reports cost one atomic store.
#[derive(Clone, Debug)]
pub struct Progress(Arc<Worker>);

#[derive(Debug)]
struct Worker {
    name: &'static str,
    /// Times are milliseconds since this moment, so that they fit an atomic.
    created: Instant,
    limit_ms: AtomicU64,
    /// When the current step began; [`IDLE`] between steps.
    begun_ms: AtomicU64,
}

/// A step of a worker. It ends when this is dropped.
#[must_use = "the step ends when this is dropped"]
#[derive(Debug)]
pub struct Step<'a>(&'a Progress);

/// A worker whose step takes longer than its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stalled {
    pub worker: &'static str,
    /// How long the step has been running.
    pub since: Duration,
}

impl Progress {
    /// The progress of the worker that runs this task, with the worker's own limit for one step.
    /// Outside a worker nothing watches it.
    pub fn current(limit: Duration) -> Self {
        let unwatched = |_| Self::new("unwatched");
        let progress = CURRENT.try_with(Clone::clone).unwrap_or_else(unwatched);
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        progress.0.limit_ms.store(limit_ms, Ordering::Relaxed);
        progress
    }

    /// Runs a worker so that [`Progress::current`] returns this progress in it.
    pub async fn of<W: Future>(self, worker: W) -> W::Output {
        CURRENT.scope(self, worker).await
    }

    /// Begins a step.
    pub fn step(&self) -> Step<'_> {
        self.advance();
        Step(self)
    }

    /// Reports progress inside a step that has several parts: the limit starts again.
    pub fn advance(&self) {
        self.0.begun_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// The worker is in a step from now on, unless it was in one before.
    pub fn begin(&self) {
        let begun = &self.0.begun_ms;
        // Fails if a step is running: that step keeps its start.
        let _ = begun.compare_exchange(IDLE, self.now_ms(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The worker waits for work from now on.
    pub fn end(&self) {
        self.0.begun_ms.store(IDLE, Ordering::Relaxed);
    }

    fn new(name: &'static str) -> Self {
        Self(Arc::new(Worker {
            name,
            created: Instant::now(),
            limit_ms: AtomicU64::new(u64::MAX),
            begun_ms: AtomicU64::new(IDLE),
        }))
    }

    fn stalled(&self) -> Option<Stalled> {
        let begun_ms = self.0.begun_ms.load(Ordering::Relaxed);
        let since_ms = self.now_ms().saturating_sub(begun_ms);
        let is_stalled = begun_ms != IDLE && since_ms > self.0.limit_ms.load(Ordering::Relaxed);
        is_stalled.then(|| Stalled {
            worker: self.0.name,
            since: Duration::from_millis(since_ms),
        })
    }

    /// The time now, never [`IDLE`].
    fn now_ms(&self) -> u64 {
        let elapsed = self.0.created.elapsed().as_millis();
        u64::try_from(elapsed).unwrap_or(u64::MAX).saturating_add(1)
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Watches the workers of a service.
#[derive(Clone, Debug, Default)]
pub struct Watch(Arc<Mutex<Vec<Progress>>>);

impl Watch {
    /// Adds a worker. Several workers may have the same name.
    pub fn worker(&self, name: &'static str) -> Progress {
        let progress = Progress::new(name);
        let mut workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        workers.push(progress.clone());
        progress
    }

    /// The workers that make no progress now.
    pub fn stalled(&self) -> Vec<Stalled> {
        let workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        workers.iter().filter_map(Progress::stalled).collect()
    }

    /// Logs and measures stalls until shutdown.
    pub async fn run(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let mut looks = min_interval(INTERVAL);
        let mut known = Vec::new();
        loop {
            tokio::select! {
                _ = looks.tick() => self.look(&mut known),
                () = shutdown.cancelled() => return Ok(()),
            }
        }
    }

    /// Logs each change once, and sets the gauges.
    fn look(&self, known: &mut Vec<&'static str>) {
        let stalled = self.stalled();
        for Stalled { worker, since } in &stalled {
            if !known.contains(worker) {
                tracing::warn!(worker, ?since, "worker stalled");
            }
        }
        let now: Vec<&'static str> = stalled.iter().map(|it| it.worker).collect();
        for worker in known.iter().filter(|it| !now.contains(it)) {
            tracing::info!(worker, "worker makes progress again");
        }
        *known = now;
        let workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for Progress(worker) in workers.iter() {
            let is_stalled = known.contains(&worker.name);
            metrics::gauge!(metric::WORKER_STALLED, "worker" => worker.name).set(if is_stalled {
                1.0
            } else {
                0.0
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn names(watch: &Watch) -> Vec<&'static str> {
        watch.stalled().iter().map(|it| it.worker).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn step_past_its_limit_is_a_stall_until_it_ends() {
        let watch = Watch::default();
        let worker = async {
            let progress = Progress::current(LIMIT);
            let step = progress.step();
            tokio::time::sleep(LIMIT).await;
            assert!(names(&watch).is_empty());
            tokio::time::sleep(INTERVAL).await;
            assert_eq!(names(&watch), ["relay"]);
            progress.advance();
            assert!(names(&watch).is_empty(), "a part of the step is finished");
            tokio::time::sleep(2 * LIMIT).await;
            assert_eq!(names(&watch), ["relay"]);
            drop(step);
            assert!(names(&watch).is_empty());
        };
        watch.worker("relay").of(worker).await;
    }

    #[tokio::test(start_paused = true)]
    async fn worker_without_work_never_stalls() {
        let watch = Watch::default();
        let worker = async {
            let progress = Progress::current(LIMIT);
            tokio::time::sleep(10 * LIMIT).await;
            assert!(names(&watch).is_empty());
            progress.begin();
            tokio::time::sleep(LIMIT / 2).await;
            progress.begin();
            tokio::time::sleep(LIMIT).await;
            assert_eq!(names(&watch), ["consumer"], "the first begin counts");
            progress.end();
            assert!(names(&watch).is_empty());
        };
        watch.worker("consumer").of(worker).await;
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_step_is_over() {
        let watch = Watch::default();
        let worker = async {
            let progress = Progress::current(LIMIT);
            let hanging = async {
                let _step = progress.step();
                std::future::pending::<()>().await;
            };
            let _ = tokio::time::timeout(3 * LIMIT, hanging).await;
            assert!(names(&watch).is_empty());
        };
        watch.worker("charger").of(worker).await;
    }

    #[tokio::test(start_paused = true)]
    async fn each_change_is_noticed_once() {
        let watch = Watch::default();
        let (first, second) = (watch.worker("charger"), watch.worker("charger"));
        for progress in [&first, &second] {
            progress.0.limit_ms.store(0, Ordering::Relaxed);
        }
        let mut known = Vec::new();
        first.advance();
        tokio::time::sleep(INTERVAL).await;
        watch.look(&mut known);
        assert_eq!(known, ["charger"]);
        second.advance();
        tokio::time::sleep(INTERVAL).await;
        watch.look(&mut known);
        assert_eq!(known, ["charger"; 2]);
        first.end();
        second.end();
        watch.look(&mut known);
        assert!(known.is_empty());
    }
}
