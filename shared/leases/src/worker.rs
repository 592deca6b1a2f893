//! Leases due rows and makes the outside call for each of them.

mod slots;
pub(crate) mod unprotected;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use service_kit::{BatchInterval, FairShare, Place, Progress, UNPROTECTED, database};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::starter::Backlog;
use crate::{Clock, LeaseEnd, Queues};
use slots::{Slots, StepOutcome};
use unprotected::WaitingRows;

/// Longest wait from the start of one lease to the next under load, so that each takes more rows.
const BATCH_INTERVAL_MAX: Duration = Duration::from_millis(20);
/// The usual [`Settings::store_wait_max`].
pub const STORE_WAIT_MAX: Duration = Duration::from_secs(15);
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

    /// The principal that a row belongs to, for [`Worker::shared`].
    fn principal<'a>(&self, _row: &'a Self::Row) -> &'a str {
        ""
    }

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

    /// The row of the next try, if this result leaves it open. Only an unprotected program asks: it does not read the
    /// table again.
    fn next_try(&self, _result: &Self::Output) -> Option<Self::Row> {
        None
    }
}

/// How much to lease, and for how long.
#[derive(Clone, Debug)]
pub struct LeaseRequest {
    /// One token for the batch. It distinguishes this lease from every other lease of the same row.
    pub token: Uuid,
    pub lease: Duration,
    /// The end of the lease on the clock of this process. A call must not start after it.
    pub ends: LeaseEnd,
    /// Maximum number of rows to lease.
    pub limit: i64,
    /// How many rows of each principal to lease; empty if the rows have no principals.
    pub shares: Vec<Share>,
}

/// The part of a lease that one principal gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub principal: Arc<str>,
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
    /// Longest wait for the statement that leases. After it the worker tries again, on another connection.
    pub store_wait_max: Duration,
}

/// A result on its way to the recorder. Its slot stays taken until the result is recorded.
#[derive(Debug)]
pub struct Done<T> {
    result: T,
    lease_ends: Instant,
    _slot: Place,
}

/// Leases rows and makes their calls until shutdown.
pub struct Worker<W: Work> {
    pub(crate) work: Arc<W>,
    pub(crate) settings: Settings,
    due: Arc<Notify>,
    pub(crate) results: mpsc::Sender<Done<W::Output>>,
    pub(crate) share: FairShare,
    /// Names the queues of the principals that share the slots.
    pub(crate) backlog: Backlog,
    pub(crate) clock: Clock,
    /// Empty unless the program is unprotected.
    pub(crate) memory: Arc<WaitingRows<W::Row>>,
}

impl<W: Work> Worker<W> {
    /// A worker for rows that have no principals. `due` wakes it when rows become due.
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
            share: FairShare::new(settings.in_flight_max),
            // Rows may wait since before the start.
            backlog: Backlog::OfAll(Arc::new(AtomicBool::new(true))),
            clock: Clock::default(),
            memory: Arc::default(),
        }
    }

    /// A worker whose slots are shared between the principals of these queues: each gets a slot only
    /// while it holds fewer than are free.
    pub fn shared(
        work: W,
        settings: Settings,
        queues: Arc<Queues>,
        results: mpsc::Sender<Done<W::Output>>,
    ) -> Self {
        Self {
            backlog: Backlog::OfPrincipals(queues.clone()),
            ..Self::new(work, settings, queues.due().clone(), results)
        }
    }

    /// Replaces the clock, for tests.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Runs until shutdown. Calls in flight continue after it. Each call holds a sender, so the
    /// recorder waits for the last call.
    pub async fn run(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        if UNPROTECTED {
            return unprotected::run(self, shutdown).await;
        }
        let mut batches = BatchInterval::new(BATCH_INTERVAL_MAX);
        let progress = Progress::current(self.settings.lease + STEP_SLACK);
        while !shutdown.is_cancelled() {
            batches.begin().await;
            let started = tokio::time::Instant::now();
            progress.begin();
            let is_short = tokio::select! {
                step = self.try_step() => match step {
                    // Without a free slot the step continues: calls that never end are a stall.
                    Ok(StepOutcome { leased: 0, is_short: true }) => true,
                    Ok(StepOutcome { leased, is_short }) => {
                        progress.end();
                        batches.ended(started);
                        if leased > 0 {
                            continue;
                        }
                        is_short
                    }
                    Err(error) => {
                        progress.end();
                        let error = format!("{error:#}");
                        tracing::warn!(error, "lease failed, retrying");
                        // A wake does not end this pause: with a wake after every commit, an outage would
                        // become a busy loop.
                        tokio::select! {
                            () = tokio::time::sleep(FAILURE_PAUSE) => {}
                            () = shutdown.cancelled() => {}
                        }
                        continue;
                    }
                },
                () = shutdown.cancelled() => break,
            };
            tokio::select! {
                () = self.due.notified() => {}
                () = self.share.freed(), if is_short => {}
                () = tokio::time::sleep(self.settings.poll) => {}
                () = shutdown.cancelled() => {}
            }
        }
        Ok(())
    }

    /// One step: leases as many rows as there are free slots, and starts their calls. Returns the
    /// number of leased rows.
    pub async fn step(&self) -> anyhow::Result<usize> {
        Ok(self.try_step().await?.leased)
    }

    async fn try_step(&self) -> anyhow::Result<StepOutcome> {
        let mut slots = self.take_slots();
        if slots.is_empty() {
            return Ok(slots.outcome(0));
        }
        let lease = self.settings.lease;
        // Both are measured from before the statement, so that the lease ends here before it ends in
        // the store.
        let ends = self.clock.after(lease);
        let lease_ends = Instant::now() + lease;
        let request = LeaseRequest {
            token: Uuid::new_v4(),
            lease,
            ends: ends.clone(),
            limit: slots.count() as i64,
            shares: slots.shares(),
        };
        let rows =
            database::with_timeout(self.settings.store_wait_max, self.work.lease(request)).await?;
        let count = rows.len();
        if count > 0 {
            self.work.leased();
            if let Backlog::OfPrincipals(queues) = &self.backlog {
                queues.note_activity();
            }
        }
        for row in rows {
            let principal = self.work.principal(&row);
            let Some(slot) = slots.take(principal) else {
                tracing::error!(principal, "more rows were leased than requested");
                continue;
            };
            let lease = Lease {
                ends: ends.clone(),
                ends_at: lease_ends,
                slot,
            };
            tokio::spawn(call(self.work.clone(), row, lease, self.results.clone()));
        }
        match &self.backlog {
            Backlog::OfPrincipals(queues) => {
                slots.used_up().for_each(|it| queues.again(it));
                slots.left_over().for_each(|it| queues.caught_up(it));
            }
            Backlog::OfAll(is_behind) => {
                is_behind.store(slots.left_over().next().is_none(), Ordering::Relaxed);
            }
        }
        Ok(slots.outcome(count))
    }

    /// Takes slots for the queues to look into, one for each in turn. So a queue with many due rows
    /// leaves slots to the others.
    fn take_slots(&self) -> Slots {
        let batch_max = self.settings.batch_max;
        let Backlog::OfPrincipals(queues) = &self.backlog else {
            let places = std::iter::from_fn(|| self.share.try_take_any());
            return Slots::unshared(places.take(batch_max).collect());
        };
        let mut slots = Slots::for_principals(queues.take_due());
        let mut count = 0;
        let mut is_taking = true;
        while is_taking {
            is_taking = false;
            for (principal, places) in &mut slots.by_principal {
                if count < batch_max
                    && let Some(place) = self.share.try_take(principal)
                {
                    places.push(place);
                    count += 1;
                    is_taking = true;
                }
            }
        }
        let without = slots.by_principal.iter().filter(|(_, it)| it.is_empty());
        without.for_each(|(principal, _)| queues.again(principal));
        slots.by_principal.retain(|(_, places)| {
            slots.is_short |= places.is_empty();
            !places.is_empty()
        });
        slots
    }
}

/// The lease of one row, with its slot.
pub(crate) struct Lease {
    pub(crate) ends: LeaseEnd,
    pub(crate) ends_at: Instant,
    pub(crate) slot: Place,
}

pub(crate) async fn call<W: Work>(
    work: Arc<W>,
    row: W::Row,
    lease: Lease,
    results: mpsc::Sender<Done<W::Output>>,
) {
    // The process may have been paused, or the machine suspended, since the lease: another worker may
    // own the row.
    let result = if lease.ends.is_over() {
        work.expired(row)
    } else {
        Some(work.call(row).await)
    };
    if let Some(result) = result {
        // This fails only after the recorder has ended. Then the process ends too, and the lease
        // expires.
        let _ = results
            .send(Done {
                result,
                lease_ends: lease.ends_at,
                _slot: lease.slot,
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
mod stalls;
#[cfg(test)]
pub(crate) mod tests;
