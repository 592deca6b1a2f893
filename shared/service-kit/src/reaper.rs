//! Removes old rows from the tables of a service.

use std::pin::Pin;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::database;

/// Longest time one step may take. A database that does not respond must not block the reaper.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);

/// The result of one bounded step of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    /// This many rows were removed, and there may be more.
    More(u64),
    /// This many rows were removed, and none are left.
    Done(u64),
}

impl Swept {
    /// After a full batch there may be more rows.
    pub fn batch(removed: u64, batch_max: i64) -> Self {
        match u64::try_from(batch_max).is_ok_and(|max| removed >= max) {
            true => Self::More(removed),
            false => Self::Done(removed),
        }
    }
}

/// One running step of a sweep.
pub type Step = Pin<Box<dyn Future<Output = anyhow::Result<Swept>> + Send>>;

struct Sweep {
    name: &'static str,
    step: Box<dyn Fn() -> Step + Send + Sync>,
}

/// The worker that runs all sweeps of a service, immediately and then at intervals.
pub struct Reaper {
    interval: Duration,
    sweeps: Vec<Sweep>,
}

impl Reaper {
    pub fn new(interval: Duration) -> Self {
        let sweeps = Vec::new();
        Self { interval, sweeps }
    }

    /// Adds a sweep, given as one bounded step: short locks, short transactions. The reaper repeats
    /// the step until it returns [`Swept::Done`].
    pub fn sweep<F, S>(mut self, name: &'static str, step: F) -> Self
    where
        F: Fn() -> S + Send + Sync + 'static,
        S: Future<Output = anyhow::Result<Swept>> + Send + 'static,
    {
        let step = Box::new(move || Box::pin(step()) as Step);
        self.sweeps.push(Sweep { name, step });
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

    /// One round. After a failure the other sweeps still run; the next round removes the remaining
    /// rows.
    pub async fn sweep_all(&self) {
        for Sweep { name, step } in &self.sweeps {
            let mut removed = 0;
            let result = loop {
                match database::with_timeout(STEP_TIMEOUT, step()).await {
                    Ok(Swept::More(more)) => removed += more,
                    Ok(Swept::Done(last)) => break Ok(removed + last),
                    Err(error) => break Err(error),
                }
            };
            match result {
                Ok(0) => {}
                Ok(removed) => tracing::debug!(name, removed, "sweep removed rows"),
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(name, error, "sweep failed; the next round tries again");
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
    async fn sweeps_repeat_until_done_and_survive_a_failure() {
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
        assert_eq!(
            rounds.load(Ordering::Relaxed),
            1,
            "the first round runs immediately"
        );
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(rounds.load(Ordering::Relaxed), 3);
        shutdown.cancel();
        task.await.unwrap().unwrap();
    }
}
