//! Records the results of calls, many in one commit.

use std::time::Duration;

use service_kit::{BatchInterval, Progress, database};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::Done;

/// Maximum number of results in one commit.
const BATCH_MAX: usize = 200;
/// Longest wait from the start of one commit to the next under load, so that more results share it.
const BATCH_INTERVAL_MAX: Duration = Duration::from_millis(20);
/// How many times a commit is repeated immediately after Postgres rolled it back: a deadlock, or a
/// conflict of serializable transactions. One of the transactions of a deadlock succeeds, so few repeats are
/// enough.
const ROLLBACK_RETRIES_MAX: u32 = 5;
/// Pause before the recorder retries results that the store could not take.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// How the results of one kind of work are recorded.
pub trait Record: Send + Sync + 'static {
    type Output: Send + Sync + 'static;

    /// Records the results in one commit. Ignores stale results: those whose lease token is no
    /// longer in the row. The returned count is for tests only; each implementation documents it.
    fn record(
        &self,
        batch: &[Done<Self::Output>],
    ) -> impl Future<Output = anyhow::Result<usize>> + Send;

    /// Names the row of a result for the log.
    fn describe(&self, result: &Self::Output) -> String;
}

/// The policy for results while the store is unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenUnreachable {
    /// Discard them. Choose this if the call can be repeated without harm: the lease expires, and
    /// the next call gets the same answer.
    Discard,
    /// Keep them, and their slots, until their leases end. Choose this if a repeated call does
    /// harm, such as a second mail.
    KeepWhileLeased,
}

/// Receives results and records them in groups.
pub struct Recorder<R: Record> {
    record: R,
    when_unreachable: WhenUnreachable,
    /// Longest time that one commit may take.
    timeout: Duration,
    results: mpsc::Receiver<Done<R::Output>>,
}

impl<R: Record> Recorder<R> {
    pub fn new(
        record: R,
        when_unreachable: WhenUnreachable,
        timeout: Duration,
        results: mpsc::Receiver<Done<R::Output>>,
    ) -> Self {
        Self {
            record,
            when_unreachable,
            timeout,
            results,
        }
    }

    /// Runs until the workers have stopped and the last call in flight has ended. No call needs to be
    /// repeated after an orderly shutdown.
    pub async fn run(mut self) -> anyhow::Result<()> {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        let mut batches = BatchInterval::new(BATCH_INTERVAL_MAX);
        while self.results.recv_many(&mut batch, BATCH_MAX).await > 0 {
            let started = tokio::time::Instant::now();
            self.record_or_log(&batch).await;
            if batch.len() < BATCH_MAX {
                batches.ended(started);
            }
            batch.clear();
            batches.begin().await;
        }
        Ok(())
    }

    /// Records the batch. If one bad result fails the batch, records the results one by one.
    async fn record_or_log(&self, batch: &[Done<R::Output>]) {
        let Err(error) = self.record_with_policy(batch).await else {
            return;
        };
        if batch.len() == 1 || database::is_transient_chain(&error) {
            self.log_lost(&error, batch);
            return;
        }
        for done in batch {
            let single = std::slice::from_ref(done);
            if let Err(error) = self.record_with_policy(single).await {
                self.log_lost(&error, single);
            }
        }
    }

    async fn record_with_policy(&self, batch: &[Done<R::Output>]) -> anyhow::Result<()> {
        let keep_until = match self.when_unreachable {
            WhenUnreachable::Discard => None,
            WhenUnreachable::KeepWhileLeased => batch.iter().map(Done::lease_ends).max(),
        };
        // Twice the limit of a try, so that only a try that ignores its limit is a stall.
        let progress = Progress::current(2 * self.timeout);
        let mut retries_left = ROLLBACK_RETRIES_MAX;
        loop {
            let trying = progress.step();
            let recorded = database::with_timeout(self.timeout, self.record.record(batch)).await;
            drop(trying);
            let Err(error) = recorded else {
                return Ok(());
            };
            if retries_left > 0 && error.chain().any(database::is_rollback_cause) {
                retries_left -= 1;
                let error = format!("{error:#}");
                tracing::warn!(
                    error,
                    results = batch.len(),
                    "commit rolled back, repeating"
                );
                continue;
            }
            let is_over = keep_until.is_none_or(|end| Instant::now() >= end);
            if is_over || !database::is_transient_chain(&error) {
                return Err(error);
            }
            let error = format!("{error:#}");
            tracing::warn!(error, results = batch.len(), "recording failed, retrying");
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    fn log_lost(&self, error: &anyhow::Error, batch: &[Done<R::Output>]) {
        let error = format!("{error:#}");
        if self.when_unreachable == WhenUnreachable::Discard && batch.len() > 1 {
            // Discarding costs nothing, so an outage needs one line and not one per result.
            tracing::error!(error, results = batch.len(), "results were not recorded");
            return;
        }
        for done in batch {
            let result = self.record.describe(done);
            tracing::error!(error, result, "result was not recorded");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use service_kit::database::TimedOut;

    use super::*;
    use crate::worker::tests::{LEASE, worker};

    /// Fails as many times as the test sets, and fails every batch that contains a bad result.
    #[derive(Clone, Default)]
    struct FakeStore {
        unreachable_times: Arc<Mutex<u32>>,
        batches: Arc<Mutex<Vec<Vec<u32>>>>,
    }

    const BAD: u32 = 13;

    impl Record for FakeStore {
        type Output = u32;

        async fn record(&self, batch: &[Done<u32>]) -> anyhow::Result<usize> {
            let mut unreachable = self.unreachable_times.lock().unwrap();
            if *unreachable > 0 {
                *unreachable -= 1;
                anyhow::bail!(TimedOut(Duration::ZERO));
            }
            let batch: Vec<u32> = batch.iter().map(|done| **done).collect();
            anyhow::ensure!(!batch.contains(&BAD), "bad result");
            let count = batch.len();
            self.batches.lock().unwrap().push(batch);
            Ok(count)
        }

        fn describe(&self, result: &u32) -> String {
            result.to_string()
        }
    }

    /// Runs a recorder over the results of one step that leases these rows.
    async fn recorded(store: &FakeStore, policy: WhenUnreachable, rows: &[u32]) -> Vec<Vec<u32>> {
        let (worker, results) = worker(rows);
        assert_eq!(worker.step().await.unwrap(), rows.len());
        drop(worker);
        while results.len() < rows.len() {
            tokio::task::yield_now().await;
        }
        let timeout = Duration::from_secs(1);
        let recorder = Recorder::new(store.clone(), policy, timeout, results);
        recorder.run().await.unwrap();
        let mut batches = store.batches.lock().unwrap().clone();
        batches.iter_mut().for_each(|batch| batch.sort_unstable());
        batches
    }

    #[tokio::test(start_paused = true)]
    async fn results_share_one_commit() {
        let store = FakeStore::default();
        let batches = recorded(&store, WhenUnreachable::Discard, &[1, 2, 3]).await;
        assert_eq!(batches, [[1, 2, 3]]);
    }

    #[tokio::test(start_paused = true)]
    async fn bad_result_does_not_block_the_others() {
        for policy in [WhenUnreachable::Discard, WhenUnreachable::KeepWhileLeased] {
            let batches = recorded(&FakeStore::default(), policy, &[1, BAD, 3]).await;
            let mut recorded = batches.concat();
            recorded.sort_unstable();
            assert_eq!(recorded, [1, 3], "{policy:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn unreachable_store_discards_or_keeps_results() {
        let unreachable = |times| FakeStore {
            unreachable_times: Arc::new(Mutex::new(times)),
            ..FakeStore::default()
        };
        let discarded = recorded(&unreachable(1), WhenUnreachable::Discard, &[1, 2]).await;
        assert!(discarded.is_empty());
        let kept = recorded(&unreachable(3), WhenUnreachable::KeepWhileLeased, &[1, 2]).await;
        assert_eq!(kept, [[1, 2]]);
    }

    #[tokio::test(start_paused = true)]
    async fn results_are_kept_until_the_lease_ends() {
        let store = FakeStore {
            unreachable_times: Arc::new(Mutex::new(u32::MAX)),
            ..FakeStore::default()
        };
        let started = Instant::now();
        let kept = recorded(&store, WhenUnreachable::KeepWhileLeased, &[1]).await;
        assert!(kept.is_empty());
        let waited = started.elapsed();
        assert!(
            waited >= LEASE && waited < LEASE + 2 * RETRY_PAUSE,
            "{waited:?}"
        );
    }
}
