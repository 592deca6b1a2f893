//! The rows of an unprotected program. They wait for a slot in memory, and no statement leases them. If the process dies, the
//! rows in its memory are lost: they stay open in the table, and nothing reads them there.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use service_kit::{FairShare, Place};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Done, Work, Worker};
use crate::starter::Backlog;

/// Pause before the next try of a row that stays open.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Rows that wait for a slot.
pub(crate) struct WaitingRows<R> {
    /// Oldest first, each with the time at which it was added.
    by_principal: Mutex<BTreeMap<String, VecDeque<(Instant, R)>>>,
    added: Notify,
    /// A reservation takes one of these places for each row, instead of a slot, so every row is marked as leased. There
    /// is no limit, because a row without a place would be lost.
    places: FairShare,
}

impl<R> Default for WaitingRows<R> {
    fn default() -> Self {
        Self {
            by_principal: Mutex::default(),
            added: Notify::new(),
            places: FairShare::new(usize::MAX),
        }
    }
}

impl<R> WaitingRows<R> {
    /// A place for a row that is about to be stored.
    pub(crate) fn place(&self) -> Option<Place> {
        self.places.try_take_any()
    }

    pub(crate) fn add<W: Work<Row = R>>(&self, work: &W, row: R) {
        let principal = work.principal(&row).to_owned();
        let mut waiting = self.waiting();
        let rows = waiting.entry(principal).or_default();
        rows.push_back((Instant::now(), row));
        self.added.notify_one();
    }

    /// How long the first row of each principal waits.
    pub(crate) fn waits(&self) -> BTreeMap<String, Duration> {
        let waiting = self.waiting();
        let waits = waiting.iter().filter_map(|(principal, rows)| {
            let (since, _) = rows.front()?;
            Some((principal.clone(), since.elapsed()))
        });
        waits.collect()
    }

    /// Takes the rows that get a slot, one of each principal in turn.
    fn take(&self, slot: impl Fn(&str) -> Option<Place>) -> Vec<(R, Place)> {
        let mut waiting = self.waiting();
        let mut taken = Vec::new();
        let mut is_taking = true;
        while is_taking {
            is_taking = false;
            for (principal, rows) in waiting.iter_mut() {
                if !rows.is_empty()
                    && let Some(slot) = slot(principal)
                    && let Some((_, row)) = rows.pop_front()
                {
                    taken.push((row, slot));
                    is_taking = true;
                }
            }
        }
        taken
    }

    fn len(&self) -> usize {
        self.waiting().values().map(VecDeque::len).sum()
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, VecDeque<(Instant, R)>>> {
        // No code panics while it holds the lock, so a poisoned lock is usable.
        let waiting = self.by_principal.lock();
        waiting.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the calls of the rows in memory, until shutdown.
pub(super) async fn run<W: Work>(
    worker: Worker<W>,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let (memory, share) = (&worker.memory, &worker.share);
    while !shutdown.is_cancelled() {
        let rows = memory.take(|principal| match worker.backlog {
            Backlog::OfPrincipals(_) => share.try_take(principal),
            Backlog::OfAll(_) => share.try_take_any(),
        });
        for (row, slot) in rows {
            let (work, results) = (worker.work.clone(), worker.results.clone());
            let lease = worker.settings.lease;
            tokio::spawn(call(work, row, slot, lease, results, memory.clone()));
        }
        tokio::select! {
            () = memory.added.notified() => {}
            () = share.freed() => {}
            () = shutdown.cancelled() => {}
        }
    }
    let lost = memory.len();
    if lost > 0 {
        tracing::error!(lost, "rows lost: the program ends");
    }
    Ok(())
}

async fn call<W: Work>(
    work: Arc<W>,
    row: W::Row,
    slot: Place,
    lease: Duration,
    results: mpsc::Sender<Done<W::Output>>,
    memory: Arc<WaitingRows<W::Row>>,
) {
    let result = work.call(row).await;
    let next = work.next_try(&result);
    let done = Done {
        result,
        lease_ends: Instant::now() + lease,
        _slot: slot,
    };
    let _ = results.send(done).await;
    // The recorder ends when the last sender is dropped.
    drop(results);
    if let Some(row) = next {
        tokio::time::sleep(RETRY_PAUSE).await;
        memory.add(&*work, row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::tests::{IN_FLIGHT_MAX, shared_worker, worker, worker_that_tries_twice};

    #[tokio::test(start_paused = true)]
    async fn rows_in_memory_are_called_without_a_lease() {
        // This row could be leased.
        let (worker, mut results) = worker(&[1_000]);
        let (count, shutdown) = (3 * IN_FLIGHT_MAX, CancellationToken::new());
        (0..count).for_each(|row| worker.memory.add(&*worker.work, row as u32));
        let running = tokio::spawn(run(worker, shutdown.clone()));
        for row in 0..count {
            assert_eq!(*results.recv().await.unwrap(), row as u32);
        }
        shutdown.cancel();
        running.await.unwrap().unwrap();
        assert!(results.recv().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn row_that_stays_open_is_tried_again_from_memory() {
        let (worker, mut results) = worker_that_tries_twice();
        worker.memory.add(&*worker.work, 0);
        let running = tokio::spawn(run(worker, CancellationToken::new()));
        assert_eq!(*results.recv().await.unwrap(), 0);
        let started = Instant::now();
        assert_eq!(*results.recv().await.unwrap(), 1);
        assert!(started.elapsed() >= RETRY_PAUSE);
        running.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn rows_in_memory_share_the_slots() {
        let (worker, _, _results) = shared_worker(Vec::new());
        let memory = &worker.memory;
        let odd = (0..100).map(|row| 2 * row + 1);
        odd.chain([0])
            .for_each(|row| memory.add(&*worker.work, row));
        tokio::time::advance(RETRY_PAUSE).await;
        assert_eq!(memory.waits()["odd"], RETRY_PAUSE);
        let rows = memory.take(|principal| worker.share.try_take(principal));
        let odd = rows.iter().filter(|(row, _)| row % 2 == 1).count();
        assert_eq!((odd, rows.len() - odd), (IN_FLIGHT_MAX / 2, 1));
        assert_eq!(memory.len(), 100 - odd);
    }
}
