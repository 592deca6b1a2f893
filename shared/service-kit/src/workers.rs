//! The background tasks of a service. They stop together, within a time limit.

use std::future::Future;
use std::time::Duration;

use anyhow::Context as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long workers may take to finish their work after shutdown begins.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

pub struct Workers {
    shutdown: CancellationToken,
    tasks: JoinSet<(&'static str, anyhow::Result<()>)>,
}

impl Workers {
    pub fn new(shutdown: CancellationToken) -> Self {
        Self {
            shutdown,
            tasks: JoinSet::new(),
        }
    }

    /// A token that is cancelled when the service stops.
    pub fn shutdown(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// Starts a worker. It must end soon after the shutdown token is cancelled, and not before.
    pub fn spawn<F>(&mut self, name: &'static str, worker: F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        self.tasks.spawn(async move { (name, worker.await) });
    }

    /// Runs until shutdown, or until a worker fails. Then stops the others and waits for them.
    /// Work that is not finished in time is dropped: every worker can resume after a crash.
    pub async fn run(mut self) -> anyhow::Result<()> {
        let mut result = Ok(());
        tokio::select! {
            () = self.shutdown.cancelled() => {}
            Some(ended) = self.tasks.join_next() => result = check_end(ended, &self.shutdown),
        }
        self.shutdown.cancel();
        let drain = async {
            while let Some(ended) = self.tasks.join_next().await {
                let ended = check_end(ended, &self.shutdown);
                result = std::mem::replace(&mut result, Ok(())).and(ended);
            }
        };
        if tokio::time::timeout(DRAIN_TIMEOUT, drain).await.is_err() {
            tracing::warn!(
                ?DRAIN_TIMEOUT,
                "workers did not stop in time and are dropped"
            );
        }
        result
    }
}

type Ended = Result<(&'static str, anyhow::Result<()>), tokio::task::JoinError>;

/// An error if the worker failed, or ended before shutdown.
fn check_end(ended: Ended, shutdown: &CancellationToken) -> anyhow::Result<()> {
    let (name, result) = ended.context("a worker panicked")?;
    result.with_context(|| format!("worker {name} failed"))?;
    anyhow::ensure!(
        shutdown.is_cancelled(),
        "worker {name} ended before shutdown"
    );
    Ok(())
}
