//! What is known only by asking the store, such as the length of a queue in a table: one worker of a
//! service that asks, slowly, and tells the metrics.

use std::pin::Pin;
use std::time::Duration;

use crate::min_interval;
use tokio_util::sync::CancellationToken;

/// How often the store is asked: as often as metrics are usually scraped.
const INTERVAL: Duration = Duration::from_secs(5);
/// Longest time one reading may take, whatever became of the database.
const READING_TIMEOUT: Duration = Duration::from_secs(5);

/// One reading on its way.
pub type Reading = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>;

struct Gauge {
    what: &'static str,
    read: Box<dyn Fn() -> Reading + Send + Sync>,
}

/// Reads gauge after gauge, at once and then in intervals.
#[derive(Default)]
pub struct Gauges(Vec<Gauge>);

impl Gauges {
    /// Adds a reading: a cheap question to the store, its answer told to the metrics.
    pub fn read<F>(mut self, what: &'static str, read: F) -> Self
    where
        F: Fn() -> Reading + Send + Sync + 'static,
    {
        let read = Box::new(read);
        self.0.push(Gauge { what, read });
        self
    }

    pub async fn run(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let mut readings = min_interval(INTERVAL);
        let read = async {
            loop {
                readings.tick().await;
                self.read_all().await;
            }
        };
        tokio::select! {
            () = read => {}
            () = shutdown.cancelled() => {}
        }
        Ok(())
    }

    /// One round. Nothing depends on a reading: one that fails leaves its gauge as it was, and says so
    /// only to those who look for it, because whoever needs the store says it aloud.
    async fn read_all(&self) {
        for Gauge { what, read } in &self.0 {
            let reading = tokio::time::timeout(READING_TIMEOUT, read()).await;
            let reading = reading.unwrap_or_else(|_| Err(anyhow::anyhow!("it took too long")));
            if let Err(error) = reading {
                let error = format!("{error:#}");
                tracing::debug!(what, error, "a gauge was not read");
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
    async fn gauges_are_read_at_once_and_in_intervals_and_one_that_fails_or_hangs_stops_nobody() {
        let rounds = Arc::new(AtomicU64::new(0));
        let seen = rounds.clone();
        let gauges = Gauges::default()
            .read("broken", || Box::pin(async { anyhow::bail!("broken") }))
            .read("hanging", || Box::pin(std::future::pending()))
            .read("counted", move || {
                seen.fetch_add(1, Ordering::Relaxed);
                Box::pin(async { Ok(()) })
            });
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(gauges.run(shutdown.clone()));
        tokio::time::sleep(READING_TIMEOUT + Duration::from_secs(1)).await;
        assert_eq!(rounds.load(Ordering::Relaxed), 1, "the first is at once");
        tokio::time::sleep(2 * INTERVAL).await;
        assert_eq!(rounds.load(Ordering::Relaxed), 3);
        shutdown.cancel();
        task.await.unwrap().unwrap();
    }
}
