//! Clerks write requests into the books: a few tasks, each with a connection of its own.
//!
//! A commit costs the same for one entry as for many, and a pooled connection costs a second round
//! trip when it is given back. So a clerk keeps its connection, and takes at once whatever waits:
//! one entry when it is quiet, with no time added, and a batch when it is busy.

use std::mem;
use std::sync::Arc;

use chrono::TimeDelta;
use service_kit::crash;
use sqlx::PgPool;
use sqlx::pool::PoolConnection;
use sqlx::postgres::Postgres;
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::Error;
use crate::store::requests::{self, Entry, Recorded};

/// How many write at once: one waits for the disk while another prepares.
pub const CLERKS: usize = 3;
/// Most entries in one statement.
pub const BATCH_MAX: usize = 64;
/// Most entries that wait; above it a caller is told to come back.
pub const QUEUE_MAX: usize = 4_096;

/// Where entries are handed in.
#[derive(Clone, Debug)]
pub struct Desk {
    queue: mpsc::Sender<Errand>,
}

#[derive(Debug)]
struct Errand {
    entry: Entry,
    reply: oneshot::Sender<Result<Recorded, Error>>,
}

pub struct Clerk {
    queue: Arc<Mutex<mpsc::Receiver<Errand>>>,
    pool: PgPool,
    connection: Option<PoolConnection<Postgres>>,
    window: TimeDelta,
}

/// The desk, and the clerks that must [`Clerk::run`] behind it. The window is how long a key is
/// remembered.
pub fn hire(pool: &PgPool, window: TimeDelta) -> (Desk, Vec<Clerk>) {
    let (sender, receiver) = mpsc::channel(QUEUE_MAX);
    let receiver = Arc::new(Mutex::new(receiver));
    let clerk = || Clerk {
        queue: Arc::clone(&receiver),
        pool: pool.clone(),
        connection: None,
        window,
    };
    let clerks = (0..CLERKS).map(|_| clerk()).collect();
    (Desk { queue: sender }, clerks)
}

impl Desk {
    /// Returns when the entry is committed, or was found to be there already. After an error it
    /// may be there or not: only the same key can tell.
    pub async fn record(&self, entry: Entry) -> Result<Recorded, Error> {
        let (reply, recorded) = oneshot::channel();
        let errand = Errand { entry, reply };
        self.queue
            .try_send(errand)
            .map_err(|_| Error::Unavailable)?;
        recorded.await.map_err(|_| Error::Unavailable)?
    }
}

impl Clerk {
    /// Ends when nobody is left at the desk.
    pub async fn run(mut self) -> anyhow::Result<()> {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while self
            .queue
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

    async fn write(&mut self, batch: Vec<Errand>) {
        let (entries, replies): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .map(|errand| (errand.entry, errand.reply))
            .unzip();
        let mut outcome = self.record(&entries).await;
        if let Err(error) = &outcome {
            // Whatever is wrong with the connection, the next batch starts on another.
            self.connection = None;
            let error: &dyn std::error::Error = error;
            tracing::error!(
                error,
                entries = entries.len(),
                "requests could not be recorded"
            );
        }
        for (entry, reply) in entries.iter().zip(replies) {
            let recorded = match &mut outcome {
                Ok(outcomes) => outcomes.remove(&*entry.key).ok_or(Error::Internal),
                Err(error) => Err(Error::from_store(error)),
            };
            // Nobody listens any more only if the provider is being torn down.
            let _ = reply.send(recorded);
        }
    }

    async fn record(&mut self, entries: &[Entry]) -> sqlx::Result<requests::Outcomes> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            vacant => vacant.insert(self.pool.acquire().await?),
        };
        crash::point("psp.record.before");
        let outcomes = requests::record(connection, entries, self.window).await?;
        crash::point("psp.record.committed");
        Ok(outcomes)
    }
}
