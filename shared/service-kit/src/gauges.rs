//! Gauges that need a query, such as the length of a queue in a table. One worker of a service reads
//! them at intervals.

use std::pin::Pin;
use std::time::Duration;

use crate::{database, min_interval};
use tokio_util::sync::CancellationToken;

/// How often gauges are read: about as often as metrics are scraped.
const INTERVAL: Duration = Duration::from_secs(5);
/// Longest time one reading may take. A database that does not respond must not block the other readings.
const READING_TIMEOUT: Duration = Duration::from_secs(5);

/// One running reading.
pub type Reading = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>;

struct Gauge {
    name: &'static str,
    read: Box<dyn Fn() -> Reading + Send + Sync>,
}

/// The worker that reads all gauges of a service, immediately and then at intervals.
#[derive(Default)]
pub struct Gauges(Vec<Gauge>);

impl Gauges {
    /// Adds a reading: a cheap query whose result is recorded as a metric.
    pub fn read<F>(mut self, name: &'static str, read: F) -> Self
    where
        F: Fn() -> Reading + Send + Sync + 'static,
    {
        let read = Box::new(read);
        self.0.push(Gauge { name, read });
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

    /// One round. A reading that fails leaves its gauge unchanged. It is logged at debug level only:
    /// if the store is unreachable, the workers that need it log a warning.
    async fn read_all(&self) {
        for Gauge { name, read } in &self.0 {
            if let Err(error) = database::with_timeout(READING_TIMEOUT, read()).await {
                let error = format!("{error:#}");
                tracing::debug!(name, error, "gauge not read");
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
    async fn gauges_are_read_at_intervals_and_survive_a_failure() {
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
        assert_eq!(
            rounds.load(Ordering::Relaxed),
            1,
            "the first round runs immediately"
        );
        tokio::time::sleep(2 * INTERVAL).await;
        assert_eq!(rounds.load(Ordering::Relaxed), 3);
        shutdown.cancel();
        task.await.unwrap().unwrap();
    }
}
