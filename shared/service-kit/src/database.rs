//! The pool, with a limit on everything that can wait.

mod bounded_connection;

use std::time::Duration;

use anyhow::Context as _;
use sqlx::Connection as _;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use tokio::time::timeout;

pub use bounded_connection::{BoundedConnection, acquire};

/// Longest time that a request may be at the store, whatever the store does: past it the outcome is
/// unknown, and asking again will tell. Longer than waiting for a connection and then for a lock.
pub const STORE_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that was used this recently is believed to be alive without asking.
const IDLE_TRUSTED: Duration = Duration::from_secs(1);
/// Longest wait for the sign of life of a connection that lay idle.
const PING_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, clap::Args)]
#[group(id = "database")]
pub struct Settings {
    /// This service's own database.
    #[arg(long, env = "DATABASE_URL")]
    pub database_url: String,
    /// Most connections this process opens.
    #[arg(long, env = "DATABASE_CONNECTIONS_MAX", default_value_t = 16)]
    pub database_connections_max: u32,
    /// Longest wait for a free connection before a request fails with 503.
    #[arg(long, env = "DATABASE_ACQUIRE_TIMEOUT_MS", default_value_t = 2_000)]
    pub database_acquire_timeout_ms: u64,
    /// Longest time one statement may run.
    #[arg(long, env = "DATABASE_STATEMENT_TIMEOUT_MS", default_value_t = 10_000)]
    pub database_statement_timeout_ms: u64,
}

/// Does not connect yet: a service starts, and says that it is not ready, without its database.
pub fn connect_lazy(settings: &Settings, application: &'static str) -> anyhow::Result<PgPool> {
    let options: PgConnectOptions = settings
        .database_url
        .parse()
        .context("DATABASE_URL is not a Postgres URL")?;
    let statement_timeout_ms = settings.database_statement_timeout_ms.to_string();
    let options = options.application_name(application).options([
        ("statement_timeout", statement_timeout_ms.as_str()),
        // Every statement of a service finds its rows by an index. Its plan is kept, and may have
        // been made while the table was empty: a scan or hash join chosen then would read the whole
        // of a table that has grown, until the next analyze.
        ("enable_seqscan", "off"),
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
        ("jit", "off"),
        // Locks are held for one short transaction; whoever waits longer waits for a paused process.
        ("lock_timeout", "2000"),
        // A client that died mid-transaction must not hold its locks for ever.
        ("idle_in_transaction_session_timeout", "30000"),
    ]);
    Ok(PgPoolOptions::new()
        .max_connections(settings.database_connections_max)
        .acquire_timeout(Duration::from_millis(settings.database_acquire_timeout_ms))
        // Asking first costs a round trip, so only those are asked that were long unused: after an
        // outage they would fail one request each. Others show themselves on use.
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                let is_trusted = meta.idle_for < IDLE_TRUSTED;
                let ping = timeout(PING_TIMEOUT, connection.ping());
                Ok(is_trusted || matches!(ping.await, Ok(Ok(()))))
            })
        })
        .connect_lazy_with(options))
}

/// The store did not answer in time. What was asked of it may be done, or may still be done.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the store did not answer within {} ms", .0.as_millis())]
pub struct TimedOut(pub Duration);

/// Why the store could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
}

impl Error {
    /// See [`is_transient`].
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Sql(error) => is_transient(error),
            Self::TimedOut(_) => true,
        }
    }

    /// Whether the error leaves the outcome of a commit open: the connection was lost, or the answer
    /// did not come in time.
    pub fn is_outcome_open(&self) -> bool {
        match self {
            Self::Sql(error) => is_outcome_open(error),
            Self::TimedOut(_) => true,
        }
    }
}

/// Abandons work at the store when it takes longer than this. A connection that the work holds must
/// be a [`BoundedConnection`], or be closed: it may never answer again.
pub async fn with_timeout<T, E: From<TimedOut>>(
    limit: Duration,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    timeout(limit, work)
        .await
        .unwrap_or_else(|_| Err(TimedOut(limit).into()))
}

/// [`with_timeout`] for work that only runs SQL.
pub async fn query_with_timeout<T>(
    limit: Duration,
    work: impl Future<Output = sqlx::Result<T>>,
) -> Result<T, Error> {
    with_timeout(limit, async { Ok(work.await?) }).await
}

/// Whether a cause in a chain of errors is a store that is unreachable for now.
pub fn is_transient_cause(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.is::<TimedOut>()
        || cause
            .downcast_ref::<Error>()
            .is_some_and(Error::is_transient)
        || cause
            .downcast_ref::<sqlx::Error>()
            .is_some_and(is_transient)
}

/// Whether the error leaves open what became of a commit: its connection went, or its answer did not
/// come in time. What was asked for may be done, or may yet be.
fn is_outcome_open(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::WorkerCrashed => true,
        // 08 connection, 57P the server ends the session or goes down.
        sqlx::Error::Database(error) => error
            .code()
            .is_some_and(|code| code.starts_with("08") || code.starts_with("57P")),
        _ => false,
    }
}

/// Whether the error says "not now" (connection, pool, deadlock, shutdown) rather than "never".
pub fn is_transient(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::Protocol(_) => true,
        // 08 connection, 40 rollback (deadlock, serialisation), 53 out of resources,
        // 55 lock not available, 57 operator intervention (shutdown, cancelled), 58 system error.
        sqlx::Error::Database(error) => error.code().is_some_and(|code| {
            ["08", "40", "53", "55", "57", "58"]
                .iter()
                .any(|class| code.starts_with(class))
        }),
        _ => false,
    }
}
