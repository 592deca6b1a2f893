//! The relay's database session: it holds the shard locks, and both end together.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};

use crate::shards;

/// Longest wait for the database, so that one that is cut off is an error and not a standstill.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) struct Session {
    pub(crate) connection: PgConnection,
    pub(crate) shards: Vec<i16>,
    balanced_at: Instant,
}

/// Makes Postgres end a session whose relay has gone silent, and so free its shards: a paused
/// process by `idle_session_timeout`, a machine that vanished without a word by the keepalives,
/// which are two hours by default.
///
/// And pins its plans: rows come out of each partition's small index in the order of their ids. A plan
/// that was made while there were few might gather and sort all that is unpublished, and would do so
/// for every batch of a backlog.
pub(crate) fn options(database: PgConnectOptions, idle_max: Duration) -> PgConnectOptions {
    let idle_max_ms = idle_max.as_millis().to_string();
    database.options([
        ("idle_session_timeout", idle_max_ms.as_str()),
        ("tcp_keepalives_idle", "5"),
        ("tcp_keepalives_interval", "2"),
        ("tcp_keepalives_count", "3"),
        ("enable_seqscan", "off"),
        ("enable_bitmapscan", "off"),
        ("enable_sort", "off"),
    ])
}

/// The open session, made anew after an error, with its shards looked over now and then.
pub(crate) async fn open<'a>(
    session: &'a mut Option<Session>,
    database: &PgConnectOptions,
    rebalance: Duration,
) -> anyhow::Result<&'a mut Session> {
    let open = match session.take() {
        Some(open) if open.balanced_at.elapsed() < rebalance => return Ok(session.insert(open)),
        Some(open) => open,
        None => bounded(connect(database)).await?,
    };
    // Taken out meanwhile: if this fails or is given up, the session and its locks go with it.
    let open = bounded(balance(open)).await?;
    Ok(session.insert(open))
}

impl Session {
    /// Shows Postgres that the relay lives, while it waits for the broker.
    pub(crate) async fn beat(&mut self) -> anyhow::Result<()> {
        bounded(async { Ok(self.connection.ping().await?) })
            .await
            .context("keeping the session alive")
    }
}

/// Fails what takes longer than [`DATABASE_TIMEOUT`].
pub(crate) async fn bounded<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::time::timeout(DATABASE_TIMEOUT, work)
        .await
        .context("the database does not answer")?
}

async fn connect(database: &PgConnectOptions) -> anyhow::Result<Session> {
    let mut connection = database.connect().await.context("connecting the relay")?;
    shards::join(&mut connection)
        .await
        .context("announcing the relay")?;
    Ok(Session {
        connection,
        shards: Vec::new(),
        balanced_at: Instant::now(),
    })
}

async fn balance(mut session: Session) -> anyhow::Result<Session> {
    session.shards = shards::rebalance(&mut session.connection, session.shards)
        .await
        .context("looking for shards to publish")?;
    session.balanced_at = Instant::now();
    Ok(session)
}
