//! Leases due rows and makes the outside call for each of them.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use service_kit::{Progress, database, min_interval};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Shortest time between two leases. Under load each lease then takes more rows.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// Longest time for the statement that leases rows.
const LEASE_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest time of one step besides the lease: recording a result frees the slot that a step waits
/// for, and a step leases rows once.
const STEP_SLACK: Duration = Duration::from_secs(60);
/// Pause after a lease that failed.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// One kind of work: how to lease its rows, and the call to make for each.
pub trait Work: Send + Sync + 'static {
    /// A leased row.
    type Row: Send + 'static;
    /// The result of one call, with everything that the recorder needs.
    type Output: Send + 'static;

    /// Leases due rows, in one commit. A row must not be leased again before its lease ends.
    fn lease(
        &self,
        request: LeaseRequest,
    ) -> impl Future<Output = anyhow::Result<Vec<Self::Row>>> + Send;

    /// Runs after rows were leased and before their calls start: the place for a crash point.
    fn leased(&self) {}

    /// Makes the outside call for one row. A call that fails is a result too.
    fn call(&self, row: Self::Row) -> impl Future<Output = Self::Output> + Send;

    /// The result of a row whose lease expired before its call started. `None` records nothing and
    /// leaves the row to its next owner.
    fn expired(&self, row: Self::Row) -> Option<Self::Output>;
}

/// How much to lease, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct LeaseRequest {
    /// One token for the batch. It distinguishes this lease from every other lease of the same row.
    pub token: Uuid,
    pub lease: Duration,
    /// Maximum number of rows to lease.
    pub limit: i64,
}

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a worker owns a row. Another worker takes over when this time has passed.
    pub lease: Duration,
    /// How often the worker looks for due rows if nothing wakes it.
    pub poll: Duration,
    /// Maximum number of rows in flight: leased, and their results not yet recorded.
    pub in_flight_max: usize,
    /// Maximum number of rows leased by one statement.
    pub batch_max: usize,
}

/// A result on its way to the recorder. Its slot stays taken until the result is recorded.
#[derive(Debug)]
pub struct Done<T> {
    result: T,
    lease_ends: Instant,
    _slot: OwnedSemaphorePermit,
}

/// Leases rows and makes their calls until shutdown.
pub struct Worker<W: Work> {
    work: Arc<W>,
    settings: Settings,
    due: Arc<Notify>,
    results: mpsc::Sender<Done<W::Output>>,
    slots: Arc<Semaphore>,
}

impl<W: Work> Worker<W> {
    /// `due` wakes the worker when rows become due.
    pub fn new(
        work: W,
        settings: Settings,
        due: Arc<Notify>,
        results: mpsc::Sender<Done<W::Output>>,
    ) -> Self {
        Self {
            work: Arc::new(work),
            settings,
            due,
            results,
            slots: Arc::new(Semaphore::new(settings.in_flight_max)),
        }
    }

    /// Runs until shutdown. Calls in flight continue after it. Each call holds a sender, so the
    /// recorder waits for the last call.
    pub async fn run(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let mut batches = min_interval(MIN_INTERVAL);
        let progress = Progress::current(self.settings.lease + STEP_SLACK);
        while !shutdown.is_cancelled() {
            batches.tick().await;
            let running = progress.step();
            let pause = tokio::select! {
                step = self.step() => match step {
                    Ok(0) => self.settings.poll,
                    Ok(_) => continue,
                    Err(error) => {
                        let error = format!("{error:#}");
                        tracing::warn!(error, "lease failed, retrying");
                        FAILURE_PAUSE
                    }
                },
                () = shutdown.cancelled() => break,
            };
            drop(running);
            tokio::select! {
                () = self.due.notified() => {}
                () = tokio::time::sleep(pause) => {}
                () = shutdown.cancelled() => {}
            }
        }
        Ok(())
    }

    /// One step: waits for a free slot, leases as many rows as there are free slots, and starts
    /// their calls. Returns the number of leased rows.
    pub async fn step(&self) -> anyhow::Result<usize> {
        let slots = self.take_slots().await?;
        let lease = self.settings.lease;
        // Measured from before the statement, so that the lease ends here before it ends in the store.
        let lease_ends = Instant::now() + lease;
        let request = LeaseRequest {
            token: Uuid::new_v4(),
            lease,
            limit: slots.len() as i64,
        };
        let rows = database::with_timeout(LEASE_TIMEOUT, self.work.lease(request)).await?;
        let count = rows.len();
        if count > 0 {
            self.work.leased();
        }
        for (row, slot) in rows.into_iter().zip(slots) {
            tokio::spawn(call(
                self.work.clone(),
                row,
                lease_ends,
                slot,
                self.results.clone(),
            ));
        }
        Ok(count)
    }

    async fn take_slots(&self) -> anyhow::Result<Vec<OwnedSemaphorePermit>> {
        let mut slots = vec![self.slots.clone().acquire_owned().await?];
        while slots.len() < self.settings.batch_max
            && let Ok(slot) = self.slots.clone().try_acquire_owned()
        {
            slots.push(slot);
        }
        Ok(slots)
    }
}

async fn call<W: Work>(
    work: Arc<W>,
    row: W::Row,
    lease_ends: Instant,
    slot: OwnedSemaphorePermit,
    results: mpsc::Sender<Done<W::Output>>,
) {
    // The process may have been paused since the lease: another worker may own the row.
    let result = if Instant::now() < lease_ends {
        Some(work.call(row).await)
    } else {
        work.expired(row)
    };
    if let Some(result) = result {
        // This fails only after the recorder has ended. Then the process ends too, and the lease
        // expires.
        let _ = results
            .send(Done {
                result,
                lease_ends,
                _slot: slot,
            })
            .await;
    }
}

impl<T> Done<T> {
    /// The end of the lease. Before it no other worker may lease the row.
    pub fn lease_ends(&self) -> Instant {
        self.lease_ends
    }
}

impl<T> Deref for Done<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.result
    }
}

#[cfg(test)]
pub(crate) mod tests;
