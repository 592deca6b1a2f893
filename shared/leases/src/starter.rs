//! Starts the calls of rows that are inserted already leased.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use service_kit::{FairShare, Place, UNPROTECTED};
use tokio::sync::mpsc;
use tokio::time::Instant;
use uuid::Uuid;

use crate::worker::unprotected::WaitingRows;
use crate::worker::{Lease, call};
use crate::{Clock, Done, LeaseEnd, Queues, Work, Worker};

/// Starts calls in the slots of a worker, for the code that inserts the worker's rows.
///
/// A row that is inserted while a slot is free can be inserted already leased. That saves the statement that
/// leases it, an update of the row, and the wait for the worker's next step.
pub struct Starter<W: Work> {
    work: Arc<W>,
    lease: Duration,
    results: mpsc::Sender<Done<W::Output>>,
    share: FairShare,
    backlog: Backlog,
    clock: Clock,
    memory: Arc<WaitingRows<W::Row>>,
}

/// Whether rows wait for the worker. New rows must not overtake them.
#[derive(Clone)]
pub(crate) enum Backlog {
    OfPrincipals(Arc<Queues>),
    /// The rows have no principals.
    OfAll(Arc<AtomicBool>),
}

/// One lease for rows that are about to be inserted, with the slots that were free.
pub struct Reservation {
    /// The lease token of the rows. `None` in an unprotected program.
    pub token: Option<Uuid>,
    pub lease: Duration,
    /// The end of the lease on the clock of this process.
    pub ends: LeaseEnd,
    ends_at: Instant,
    /// A slot for each row, or `None`: that row waits for the worker.
    slots: Vec<Option<Place>>,
}

impl<W: Work> Starter<W> {
    /// A starter that shares the slots of this worker.
    pub fn of(worker: &Worker<W>) -> Self {
        Self {
            work: worker.work.clone(),
            lease: worker.settings.lease,
            results: worker.results.clone(),
            share: worker.share.clone(),
            backlog: worker.backlog.clone(),
            clock: worker.clock.clone(),
            memory: worker.memory.clone(),
        }
    }

    /// Reserves slots for new rows, which belong to these principals; `None` for a row that needs no slot.
    /// Call it before the statement that inserts the rows: the lease ends here before it ends in the store.
    pub fn reserve<'a>(
        &self,
        principals: impl IntoIterator<Item = Option<&'a str>>,
    ) -> Reservation {
        let slots = principals.into_iter().map(|it| self.slot(it?)).collect();
        Reservation {
            token: (!UNPROTECTED).then(Uuid::new_v4),
            lease: self.lease,
            ends: match UNPROTECTED {
                true => LeaseEnd::never(),
                false => self.clock.after(self.lease),
            },
            ends_at: Instant::now() + self.lease,
            slots,
        }
    }

    /// How long the first row of each principal waits in the memory of an unprotected program.
    pub fn waits_in_memory(&self) -> BTreeMap<String, Duration> {
        self.memory.waits()
    }

    fn slot(&self, principal: &str) -> Option<Place> {
        match &self.backlog {
            _ if UNPROTECTED => self.memory.place(),
            Backlog::OfPrincipals(queues) if queues.is_behind(principal) => None,
            Backlog::OfPrincipals(_) => self.share.try_take(principal),
            Backlog::OfAll(is_behind) if is_behind.load(Ordering::Relaxed) => None,
            Backlog::OfAll(_) => self.share.try_take_any(),
        }
    }

    /// Starts the calls of the rows that were inserted leased, each with its place in the reservation. Call
    /// it after the commit. If it is not called, the leases expire.
    pub fn start(&self, reservation: Reservation, rows: Vec<(usize, W::Row)>) {
        if rows.is_empty() {
            return;
        }
        if UNPROTECTED {
            // The worker gives them their slots.
            let rows = rows.into_iter().map(|(_, row)| row);
            return rows.for_each(|row| self.memory.add(&*self.work, row));
        }
        self.work.leased();
        if let Backlog::OfPrincipals(queues) = &self.backlog {
            queues.note_activity();
        }
        let mut slots = reservation.slots;
        for (at, row) in rows {
            let Some(slot) = slots.get_mut(at).and_then(Option::take) else {
                tracing::error!(at, "a row was leased without a slot");
                continue;
            };
            let lease = Lease {
                ends: reservation.ends.clone(),
                ends_at: reservation.ends_at,
                slot,
            };
            tokio::spawn(call(self.work.clone(), row, lease, self.results.clone()));
        }
    }
}

impl Reservation {
    /// Which rows to insert leased.
    pub fn leased(&self) -> Vec<bool> {
        self.slots.iter().map(Option::is_some).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::tests::{IN_FLIGHT_MAX, shared_worker, worker};

    #[tokio::test]
    async fn row_with_a_slot_is_called_without_a_lease() {
        let (worker, mut results) = worker(&[]);
        assert_eq!(worker.step().await.unwrap(), 0);
        let starter = Starter::of(&worker);
        let reservation = starter.reserve([Some(""), None, Some("")]);
        assert_eq!(reservation.leased(), [true, false, true]);
        starter.start(reservation, vec![(0, 10), (2, 12)]);
        let sum = *results.recv().await.unwrap() + *results.recv().await.unwrap();
        assert_eq!(sum, 22);
    }

    #[tokio::test]
    async fn slots_limit_what_is_leased() {
        let (worker, _results) = worker(&[]);
        worker.step().await.unwrap();
        let starter = Starter::of(&worker);
        let count = || {
            let reservation = starter.reserve([Some(""); IN_FLIGHT_MAX + 3]);
            reservation.leased().into_iter().filter(|it| *it).count()
        };
        // The second time: a reservation that starts nothing frees its slots.
        assert_eq!([count(), count()], [IN_FLIGHT_MAX; 2]);
    }

    #[tokio::test]
    async fn new_row_does_not_overtake_rows_that_wait() {
        let (worker, _results) = worker(&[1; IN_FLIGHT_MAX + 1]);
        let starter = Starter::of(&worker);
        assert_eq!(
            starter.reserve([Some("")]).leased(),
            [false],
            "at the start"
        );
        assert_eq!(worker.step().await.unwrap(), IN_FLIGHT_MAX);
        assert_eq!(
            starter.reserve([Some("")]).leased(),
            [false],
            "one row waits"
        );
    }

    #[tokio::test]
    async fn backlog_of_one_principal_does_not_stop_another() {
        let odd: Vec<u32> = (0..100).map(|n| n * 2 + 1).collect();
        let (worker, queues, _results) = shared_worker(odd);
        let starter = Starter::of(&worker);
        queues.wake("odd");
        queues.wake("even");
        worker.step().await.unwrap();
        let reservation = starter.reserve([Some("odd"), Some("even"), Some("new")]);
        assert_eq!(reservation.leased(), [false, true, false]);
        drop(reservation);
        queues.wake("even");
        assert_eq!(starter.reserve([Some("even")]).leased(), [false]);
    }
}
