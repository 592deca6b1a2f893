//! Intake: concurrent requests share a commit.
//!
//! Requests wait in a bounded queue. A writer takes all waiting requests, stores them in one
//! transaction, and replies to each with its outcome. An idle service stores a request immediately:
//! batches grow only while the writers are busy.

mod read_back;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use service_kit::{FairShare, Place, crash, database};
use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, PgPool, Postgres};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::store::intake::{NewOrder, Placement, place};

/// Longest time for one batch. After it the outcome is unknown, and the writer reads the tables to
/// find it. Short enough that the read fits into the time of the request, `STORE_TIMEOUT`.
const WRITE_TIMEOUT: Duration = Duration::from_secs(3);

/// Submits orders to the queue. Clones share one queue.
#[derive(Clone)]
pub struct Intake {
    queue: mpsc::Sender<Job>,
    /// The places of the queue, shared between principals.
    share: FairShare,
}

/// Why an order was not stored. The writer has logged the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStored {
    /// The queue or the principal's share of it is full, or the store failed. Clients get the same
    /// response for every failure of the statement: retry with the same key.
    #[error("the store is unreachable or too busy")]
    Unavailable,
    /// The tables are in a state that must not occur.
    #[error("the stored rows are inconsistent; the intake writer logged the cause")]
    Inconsistent,
}

struct Job {
    order: Arc<NewOrder>,
    reply: oneshot::Sender<Result<Placement, NotStored>>,
    /// Held until a writer has taken the request.
    _place: Option<Place>,
}

pub struct Writer {
    queue: Arc<Mutex<mpsc::Receiver<Job>>>,
    pool: PgPool,
    /// Kept between batches: returning a connection to the pool costs a round trip.
    connection: Option<PoolConnection<Postgres>>,
    wake: outbox::Wake,
    batch_max: usize,
    window_seconds: u64,
}

pub struct Settings {
    pub queue_max: usize,
    pub batch_max: usize,
    pub writers: usize,
    pub window_seconds: u64,
}

impl Intake {
    pub fn new(settings: &Settings, pool: &PgPool, wake: &outbox::Wake) -> (Self, Vec<Writer>) {
        let (sender, receiver) = mpsc::channel(settings.queue_max);
        let queue = Arc::new(Mutex::new(receiver));
        let writer = || Writer {
            queue: queue.clone(),
            pool: pool.clone(),
            connection: None,
            wake: wake.clone(),
            batch_max: settings.batch_max,
            window_seconds: settings.window_seconds,
        };
        let writers = (0..settings.writers).map(|_| writer()).collect();
        let share = FairShare::new(settings.queue_max);
        let queue = sender;
        (Self { queue, share }, writers)
    }

    /// Stores the order. If the principal's share of the queue is full, fails immediately: waiting
    /// would make the queue longer.
    pub async fn submit(&self, order: Arc<NewOrder>) -> Result<Placement, NotStored> {
        let (reply, placement) = oneshot::channel();
        let place = self.share.try_take(&order.principal.id);
        let job = Job {
            _place: Some(place.ok_or(NotStored::Unavailable)?),
            order,
            reply,
        };
        self.queue
            .try_send(job)
            .map_err(|_| NotStored::Unavailable)?;
        placement.await.unwrap_or(Err(NotStored::Unavailable))
    }
}

impl Writer {
    /// Runs until the queue is closed and empty. It closes when the last [`Intake`] is dropped.
    pub async fn run(mut self) -> anyhow::Result<()> {
        let mut jobs = Vec::with_capacity(self.batch_max);
        while self.take(&mut jobs).await > 0 {
            // Skip requests that have timed out: their clients got 503 and retry. After an outage
            // the writers do not store a backlog that no client waits for.
            jobs.retain(|job| !job.reply.is_closed());
            while !jobs.is_empty() {
                let batch = split_distinct(&mut jobs);
                self.store(batch).await;
            }
        }
        Ok(())
    }

    async fn take(&self, jobs: &mut Vec<Job>) -> usize {
        self.queue
            .lock()
            .await
            .recv_many(jobs, self.batch_max)
            .await
    }

    async fn store(&mut self, batch: Vec<Job>) {
        let (orders, replies): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|job| (job.order, job.reply)).unzip();
        crash::point("intake.received");
        match database::with_timeout(WRITE_TIMEOUT, self.write(&orders)).await {
            Ok(placements) => {
                crash::point("intake.committed");
                self.wake.wake();
                for (placement, reply) in placements.into_iter().zip(replies) {
                    // A client that disconnected gets its response when it retries.
                    let _ = reply.send(Ok(placement));
                }
            }
            // One order that the database rejects must not fail the others.
            Err(error) if orders.len() > 1 && may_succeed_alone(&error) => {
                for (order, reply) in orders.into_iter().zip(replies) {
                    let job = Job {
                        order,
                        reply,
                        _place: None,
                    };
                    Box::pin(self.store(vec![job])).await;
                }
            }
            Err(error) => {
                tracing::error!(%error, orders = orders.len(), "orders could not be stored");
                let found = read_back::find_placements(&self.pool, &orders, &error).await;
                let otherwise = match error {
                    database::Error::Inconsistent(_) => NotStored::Inconsistent,
                    database::Error::Sql(_) | database::Error::TimedOut(_) => {
                        NotStored::Unavailable
                    }
                };
                for (placement, reply) in found.into_iter().zip(replies) {
                    let _ = reply.send(placement.ok_or(otherwise));
                }
            }
        }
    }

    /// One commit. Without references, a single statement is the transaction.
    async fn write(&mut self, orders: &[Arc<NewOrder>]) -> Result<Vec<Placement>, database::Error> {
        // Taken out of `self`: if anything below fails, the connection is not used again.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let mut connection = self.pool.acquire().await?;
                // A connection abandoned in the middle of a statement must not be reused.
                connection.close_on_drop();
                connection
            }
        };
        let placements = if orders.iter().all(|order| order.draft.reference.is_none()) {
            place(&mut connection, orders, self.window_seconds).await?
        } else {
            let mut tx = connection.begin().await?;
            let placements = place(&mut tx, orders, self.window_seconds).await?;
            tx.commit().await?;
            placements
        };
        self.connection = Some(connection);
        Ok(placements)
    }
}

/// Takes out a batch in which no id occurs twice: the statement cannot tell two orders with the same
/// id apart.
fn split_distinct(jobs: &mut Vec<Job>) -> Vec<Job> {
    let mut seen = HashSet::with_capacity(jobs.len());
    let (batch, rest) = std::mem::take(jobs)
        .into_iter()
        .partition(|job: &Job| seen.insert(job.order.id));
    *jobs = rest;
    batch
}

/// Whether storing the orders of a failed batch one by one may help: after a deadlock, or if one order
/// cannot be stored. If the store is unreachable or slow, every single order would wait for it in
/// turn.
fn may_succeed_alone(error: &database::Error) -> bool {
    let database::Error::Sql(sql) = error else {
        return !error.is_transient();
    };
    let code = sql.as_database_error().and_then(|error| error.code());
    let is_rolled_back = code.is_some_and(|code| code.starts_with("40"));
    is_rolled_back || !error.is_transient()
}
