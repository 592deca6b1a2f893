//! The way into the store: concurrent requests share a commit.
//!
//! Requests wait in a bounded queue; a writer takes all that are there, stores them in one
//! transaction, and tells each what became of it. When nothing else waits, a request is stored at
//! once: batches grow only while the writers are busy.

mod read_back;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use idempotency::{StoredResponse, store as keys};
use service_kit::{crash, database};
use sqlx::pool::PoolConnection;
use sqlx::{Connection as _, PgConnection, PgPool, Postgres};
use telemetry::Context;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::routes::view;
use crate::store::intake::{NewOrder, Placement, place};
use crate::store::orders;

/// Longest time one batch may take, whatever the database does: past it the outcome is unknown, and
/// the tables will tell. Leaves the time to look out of what a request has, `STORE_TIMEOUT`.
const WRITE_TIMEOUT: Duration = Duration::from_secs(3);

/// What a request is told.
#[derive(Debug)]
pub enum Verdict {
    /// Stored, with the answer that was prepared.
    Placed(NewOrder),
    /// The key is stored, with this answer: the order's reference was taken.
    Answered(StoredResponse),
    InFlight,
    Known(NewOrder),
}

/// The store could not be asked, or did not answer; the writer has logged why.
#[derive(Debug)]
pub struct Unavailable;

struct Job {
    order: NewOrder,
    reply: oneshot::Sender<Result<Verdict, Unavailable>>,
}

#[derive(Clone)]
pub struct Intake {
    queue: mpsc::Sender<Job>,
}

pub struct Writer {
    queue: Arc<Mutex<mpsc::Receiver<Job>>>,
    pool: PgPool,
    /// Kept from one batch to the next: returning a connection to the pool costs a round trip.
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
        (Self { queue: sender }, writers)
    }

    /// Stores the order. A full queue is refused at once: waiting would only add to the pile.
    pub async fn submit(&self, order: NewOrder) -> Result<Verdict, Unavailable> {
        let (reply, verdict) = oneshot::channel();
        self.queue
            .try_send(Job { order, reply })
            .map_err(|_| Unavailable)?;
        verdict.await.unwrap_or(Err(Unavailable))
    }
}

impl Writer {
    /// Runs until the last request is answered: the queue closes when nobody can submit any more.
    pub async fn run(mut self) -> anyhow::Result<()> {
        let mut jobs = Vec::with_capacity(self.batch_max);
        while self.take(&mut jobs).await > 0 {
            // Whoever has been told 503 meanwhile asks again: after an outage the writers do not
            // work off a pile that nobody waits for.
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
        match database::query_with_timeout(WRITE_TIMEOUT, self.write(&orders)).await {
            Ok(outcomes) => {
                crash::point("intake.committed");
                self.wake.wake();
                for ((order, outcome), reply) in orders.into_iter().zip(outcomes).zip(replies) {
                    // A client that hung up gets its answer when it asks again.
                    let _ = reply.send(Ok(outcome.for_order(order)));
                }
            }
            // One order that the database cannot digest must not take the others down with it.
            Err(error) if orders.len() > 1 && may_help_singly(&error) => {
                for (order, reply) in orders.into_iter().zip(replies) {
                    Box::pin(self.store(vec![Job { order, reply }])).await;
                }
            }
            Err(error) => {
                tracing::error!(%error, orders = orders.len(), "orders could not be stored");
                let found = read_back::look(&self.pool, &orders, &error).await;
                for ((order, found), reply) in orders.into_iter().zip(found).zip(replies) {
                    let _ = reply.send(match found {
                        Some(placement) => Ok(Outcome::Placement(placement).for_order(order)),
                        None => Err(Unavailable),
                    });
                }
            }
        }
    }

    /// One commit. Without references a single statement is the transaction.
    async fn write(&mut self, orders: &[NewOrder]) -> sqlx::Result<Vec<Outcome>> {
        // Taken out meanwhile: whatever fails below, a broken connection is not used again.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let mut connection = self.pool.acquire().await?;
                // Given up half-way it is closed, not handed to somebody else.
                connection.close_on_drop();
                connection
            }
        };
        if orders.iter().all(|order| order.draft.reference.is_none()) {
            let placed = place(&mut connection, orders, self.window_seconds).await?;
            self.connection = Some(connection);
            return Ok(placed.into_iter().map(Outcome::Placement).collect());
        }
        let mut tx = connection.begin().await?;
        let placed = place(&mut tx, orders, self.window_seconds).await?;
        let mut outcomes = Vec::with_capacity(orders.len());
        for (order, placement) in orders.iter().zip(placed) {
            outcomes.push(match placement {
                Placement::Claimed => Outcome::Answered(answer_for_taken(&mut tx, order).await?),
                other => Outcome::Placement(other),
            });
        }
        tx.commit().await?;
        self.connection = Some(connection);
        Ok(outcomes)
    }
}

/// The order was not created because its reference names another one: the key gets that answer.
async fn answer_for_taken(tx: &mut PgConnection, order: &NewOrder) -> sqlx::Result<StoredResponse> {
    let reference = order.draft.reference.as_deref().unwrap_or_default();
    let first = orders::find_by_reference(tx, &order.principal.id, reference)
        .await?
        .ok_or(sqlx::Error::RowNotFound)?;
    // A problem names its request, which this task is not part of.
    let context = Context::new(Some(&order.event.correlation_id), None);
    let answer = async { view::of_taken_reference(&first, &order.content_hash) };
    let answer = context.scope(answer).await;
    if let Some(scope) = order.scope() {
        keys::complete(tx, scope, &answer).await?;
    }
    Ok(answer)
}

enum Outcome {
    Placement(Placement),
    Answered(StoredResponse),
}

impl Outcome {
    fn for_order(self, order: NewOrder) -> Verdict {
        match self {
            Self::Placement(Placement::Placed) => Verdict::Placed(order),
            Self::Placement(Placement::InFlight) => Verdict::InFlight,
            Self::Placement(Placement::Known | Placement::Claimed) => Verdict::Known(order),
            Self::Answered(answer) => Verdict::Answered(answer),
        }
    }
}

/// Takes out a batch in which no id occurs twice: the statement could not tell two such apart.
fn split_distinct(jobs: &mut Vec<Job>) -> Vec<Job> {
    let mut seen = HashSet::with_capacity(jobs.len());
    let (batch, rest) = std::mem::take(jobs)
        .into_iter()
        .partition(|job: &Job| seen.insert(job.order.id));
    *jobs = rest;
    batch
}

/// Not if the store is away or too slow: every single order would wait for it in turn. A deadlock or
/// an order that it cannot digest concerns only some of them.
fn may_help_singly(error: &database::Error) -> bool {
    let database::Error::Sql(error) = error else {
        return false;
    };
    let rolled_back = error
        .as_database_error()
        .and_then(|error| error.code())
        .is_some_and(|code| code.starts_with("40"));
    rolled_back || !database::is_transient(error)
}
