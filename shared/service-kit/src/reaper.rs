//! What has had its time: one worker of a service that looks after all its tables.

use std::pin::Pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Longest time one step may take, whatever became of the database.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// What one bounded step of a sweep did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    /// So much was removed, and there may be more.
    More(u64),
    /// So much was removed, and that was all.
    Done(u64),
}

impl Swept {
    /// Judges a batch by whether it was full.
    pub fn batch(removed: u64, batch_max: i64) -> Self {
        match u64::try_from(batch_max).is_ok_and(|max| removed >= max) {
            true => Self::More(removed),
            false => Self::Done(removed),
        }
    }
}

/// One step of a sweep on its way.
pub type Step = Pin<Box<dyn Future<Output = anyhow::Result<Swept>> + Send>>;

struct Sweep {
    what: &'static str,
    step: Box<dyn Fn() -> Step + Send + Sync>,
}

/// Sweeps table after table, at once and then in intervals.
pub struct Reaper {
    interval: Duration,
    sweeps: Vec<Sweep>,
}

impl Reaper {
    pub fn new(interval: Duration) -> Self {
        let sweeps = Vec::new();
        Self { interval, sweeps }
    }

    /// Adds a sweep, given as one bounded step of it: short locks, short transactions. Steps follow
    /// each other until one says that nothing is left.
    pub fn sweep<F, S>(mut self, what: &'static str, step: F) -> Self
    where
        F: Fn() -> S + Send + Sync + 'static,
        S: Future<Output = anyhow::Result<Swept>> + Send + 'static,
    {
        let step = Box::new(move || Box::pin(step()) as Step);
        self.sweeps.push(Sweep { what, step });
        self
    }

    pub async fn run(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        loop {
            tokio::select! {
                () = self.sweep_all() => {}
                () = shutdown.cancelled() => return Ok(()),
            }
            tokio::select! {
                () = tokio::time::sleep(self.interval) => {}
                () = shutdown.cancelled() => return Ok(()),
            }
        }
    }

    /// One round. A failure is no reason to stop: what is left waits, and the next round finds it.
    pub async fn sweep_all(&self) {
        for Sweep { what, step } in &self.sweeps {
            let mut removed = 0;
            let outcome = loop {
                // Given up late: what it left undone, the next round finds.
                let step = tokio::time::timeout(STEP_TIMEOUT, step()).await;
                let step = step.unwrap_or_else(|_| Err(anyhow::anyhow!("it took too long")));
                match step {
                    Ok(Swept::More(more)) => removed += more,
                    Ok(Swept::Done(last)) => break Ok(removed + last),
                    Err(error) => break Err(error),
                }
            };
            match outcome {
                Ok(0) => {}
                Ok(removed) => tracing::debug!(what, removed, "swept"),
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(what, error, "a sweep failed and is tried again later");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_sweep_goes_on_until_nothing_is_left_and_a_failure_stops_nobody() {
        let left = Arc::new(AtomicU64::new(25));
        let rounds = Arc::new(AtomicU64::new(0));
        let (rows, seen) = (left.clone(), rounds.clone());
        let reaper = Reaper::new(Duration::from_secs(60))
            .sweep("broken", || async { anyhow::bail!("broken") })
            .sweep("rows", move || {
                let before = rows.load(Ordering::Relaxed);
                let removed = before.min(10);
                rows.store(before - removed, Ordering::Relaxed);
                async move { Ok(Swept::batch(removed, 10)) }
            })
            .sweep("counted", move || {
                seen.fetch_add(1, Ordering::Relaxed);
                async { Ok(Swept::Done(0)) }
            });
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(reaper.run(shutdown.clone()));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(left.load(Ordering::Relaxed), 0);
        assert_eq!(rounds.load(Ordering::Relaxed), 1, "the first is at once");
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(rounds.load(Ordering::Relaxed), 3);
        shutdown.cancel();
        task.await.unwrap().unwrap();
    }
}
