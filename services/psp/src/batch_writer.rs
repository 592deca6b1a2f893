//! Batch writers record requests in the books: a few tasks, each with its own connection.
//!
//! A commit costs the same for one request as for many, and returning a connection to the pool costs
//! a second round trip. So a writer keeps its connection and takes all waiting requests. When the
//! load is low that is one request, without added delay. When the load is high it is a batch.

use std::mem;
use std::sync::Arc;

use chrono::TimeDelta;
use sqlx::PgPool;
use sqlx::pool::PoolConnection;
use sqlx::postgres::Postgres;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::Error;
use crate::store::requests::{self, NewRequest, Recorded, RecordedByKey};

/// Number of writers: one prepares a batch while another waits for the disk.
pub const WRITERS: usize = 3;
/// Maximum number of requests in one statement.
pub const BATCH_MAX: usize = 64;
/// Maximum number of requests in the queue; when it is full, a caller gets a 503.
pub const QUEUE_MAX: usize = 4_096;

/// The queue in front of the writers.
#[derive(Clone, Debug)]
pub struct WriteQueue {
    jobs: mpsc::Sender<Job>,
}

/// One request to record, and where to send the result.
#[derive(Debug)]
struct Job {
    request: NewRequest,
    result: oneshot::Sender<Result<Recorded, Error>>,
}

pub struct BatchWriter {
    jobs: Arc<Mutex<mpsc::Receiver<Job>>>,
    pool: PgPool,
    connection: Option<PoolConnection<Postgres>>,
    window: TimeDelta,
}

/// Creates the queue and its writers; the caller must [`BatchWriter::run`] them. The provider
/// remembers a key for `window`.
pub fn create(pool: &PgPool, window: TimeDelta) -> (WriteQueue, Vec<BatchWriter>) {
    let (sender, receiver) = mpsc::channel(QUEUE_MAX);
    let receiver = Arc::new(Mutex::new(receiver));
    let writer = || BatchWriter {
        jobs: Arc::clone(&receiver),
        pool: pool.clone(),
        connection: None,
        window,
    };
    let writers = (0..WRITERS).map(|_| writer()).collect();
    (WriteQueue { jobs: sender }, writers)
}

impl WriteQueue {
    /// Returns when the request is committed, or was found in the books. After an error it may or may
    /// not be committed: only a repeat with the same key shows which.
    pub async fn record(&self, request: NewRequest) -> Result<Recorded, Error> {
        let (result, recorded) = oneshot::channel();
        let job = Job { request, result };
        self.jobs.try_send(job).map_err(|_| Error::Unavailable)?;
        recorded.await.map_err(|_| Error::Unavailable)?
    }
}

impl BatchWriter {
    /// Runs until the last [`WriteQueue`] is dropped and the queue is empty.
    pub async fn run(mut self) -> anyhow::Result<()> {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while self
            .jobs
            .lock()
            .await
            .recv_many(&mut batch, BATCH_MAX)
            .await
            > 0
        {
            self.write(mem::take(&mut batch)).await;
        }
        Ok(())
    }

    async fn write(&mut self, batch: Vec<Job>) {
        let (requests, results): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .map(|job| (job.request, job.result))
            .unzip();
        let mut recorded = self.record(&requests).await;
        if let Err(error) = &recorded {
            // The connection may be broken, so the next batch uses a new one.
            self.connection = None;
            let error: &dyn std::error::Error = error;
            tracing::error!(error, requests = requests.len(), "requests not recorded");
        }
        for (request, result) in requests.iter().zip(results) {
            let recorded = match &mut recorded {
                Ok(by_key) => by_key.remove(&*request.key).ok_or(Error::Internal),
                Err(error) => Err(Error::from_store(error)),
            };
            // The receiver is gone only while the provider is being torn down.
            let _ = result.send(recorded);
        }
    }

    async fn record(&mut self, requests: &[NewRequest]) -> sqlx::Result<RecordedByKey> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            vacant => vacant.insert(self.pool.acquire().await?),
        };
        requests::record(connection, requests, self.window).await
    }
}
