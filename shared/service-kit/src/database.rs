//! The connection pool, timeouts for work on the store, and the classification of its errors.

mod bounded_connection;
pub mod horizon;

use std::borrow::Cow;
use std::time::Duration;

use anyhow::Context as _;
use sqlx::Connection as _;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use tokio::time::timeout;

pub use bounded_connection::{BoundedConnection, acquire};
pub use horizon::Horizon;

/// Longest time that a request may use the store. After it the outcome is unknown; a retry finds
/// it. It is longer than the waits for a connection and for a lock together.
pub const STORE_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that was used this recently is assumed to be alive.
const IDLE_TRUSTED: Duration = Duration::from_secs(1);
/// Longest wait for the ping of a connection that was idle for longer.
const PING_TIMEOUT: Duration = Duration::from_millis(500);

/// Settings of the pool. Flatten them into the settings of a service.
#[derive(Clone, Debug, clap::Args)]
#[group(id = "database")]
pub struct Settings {
    /// URL of the database of this service.
    #[arg(long, env = "DATABASE_URL")]
    pub database_url: String,
    /// Maximum number of connections that this process opens.
    #[arg(long, env = "DATABASE_CONNECTIONS_MAX", default_value_t = 16)]
    pub database_connections_max: u32,
    /// Longest wait for a free connection before a request fails with 503.
    #[arg(long, env = "DATABASE_ACQUIRE_TIMEOUT_MS", default_value_t = 2_000)]
    pub database_acquire_timeout_ms: u64,
    /// Longest time one statement may run.
    #[arg(long, env = "DATABASE_STATEMENT_TIMEOUT_MS", default_value_t = 10_000)]
    pub database_statement_timeout_ms: u64,
}

/// Creates the pool without connecting: a service starts without its database, and reports that it is
/// not ready.
pub fn connect_lazy(settings: &Settings, application: &'static str) -> anyhow::Result<PgPool> {
    let options: PgConnectOptions = settings
        .database_url
        .parse()
        .context("DATABASE_URL is not a Postgres URL")?;
    let statement_timeout_ms = settings.database_statement_timeout_ms.to_string();
    let options = options.application_name(application).options([
        ("statement_timeout", statement_timeout_ms.as_str()),
        // Every statement of a service finds its rows by an index, in the order of that index. Plans
        // are cached, and a plan may date from when the table was empty. A scan or hash join chosen
        // then would read the whole table after it has grown, until the next analyze. A bitmap scan
        // would collect a queue's whole backlog to return its first rows.
        ("enable_seqscan", "off"),
        ("enable_bitmapscan", "off"),
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
        // Nor may a queue be read in the order of another index and sorted. A sort of rows that no
        // index orders still works.
        ("enable_sort", "off"),
        // One plan per statement and connection. Otherwise Postgres plans some statements at every call, because
        // it expects better plans for known parameters, although each statement has only one sensible plan.
        ("plan_cache_mode", "force_generic_plan"),
        ("jit", "off"),
        // Locks are held for one short transaction. A longer wait means that the holder is paused.
        ("lock_timeout", "2000"),
        // Releases the locks of a client that died in the middle of a transaction.
        ("idle_in_transaction_session_timeout", "30000"),
    ]);
    Ok(PgPoolOptions::new()
        .max_connections(settings.database_connections_max)
        .acquire_timeout(Duration::from_millis(settings.database_acquire_timeout_ms))
        // A ping costs a round trip, so we ping only connections that were idle for a while.
        // Without a ping, each dead connection would fail one request after an outage. A connection
        // in frequent use needs none: it fails as soon as the database does. The pool closes a
        // connection that does not answer the ping, and takes another one.
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

/// The store did not respond in time. The work may be done, or may still complete.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the store did not respond within {} ms", .0.as_millis())]
pub struct TimedOut(pub Duration);

/// Why the store could not be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
    #[error(transparent)]
    Inconsistent(#[from] Inconsistent),
}

/// The tables are in a state that the service never writes, or that a lock rules out. A retry does
/// not help: this is a defect, or the tables were changed manually.
#[derive(Clone, Debug, thiserror::Error)]
#[error("inconsistent state: {0}")]
pub struct Inconsistent(pub Cow<'static, str>);

impl Inconsistent {
    pub fn new(what: impl Into<Cow<'static, str>>) -> Self {
        Self(what.into())
    }
}

impl Error {
    /// See [`is_transient`].
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Sql(error) => is_transient(error),
            Self::TimedOut(_) => true,
            Self::Inconsistent(_) => false,
        }
    }

    /// Whether a commit that failed with this error may have taken effect: the connection was lost,
    /// or the response did not come in time.
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            Self::Sql(error) => is_outcome_unknown(error),
            Self::TimedOut(_) => true,
            Self::Inconsistent(_) => false,
        }
    }
}

/// Abandons work on the store after `limit`. A connection that the work holds must be a
/// [`BoundedConnection`], or must be closed afterwards: it may never respond again.
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

/// Whether a cause of the error shows that the store is unreachable for now.
pub fn is_transient_chain(error: &anyhow::Error) -> bool {
    error.chain().any(is_transient_cause)
}

/// [`is_transient_chain`] for one cause.
pub fn is_transient_cause(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.is::<TimedOut>()
        || cause
            .downcast_ref::<Error>()
            .is_some_and(Error::is_transient)
        || cause
            .downcast_ref::<sqlx::Error>()
            .is_some_and(is_transient)
}

/// Whether one cause in a chain of errors shows that Postgres rolled the transaction back because of
/// another one: a deadlock, or a conflict of serializable transactions. Repeating it immediately helps.
pub fn is_rollback_cause(cause: &(dyn std::error::Error + 'static)) -> bool {
    let sql = match cause.downcast_ref::<Error>() {
        Some(Error::Sql(error)) => Some(error),
        _ => cause.downcast_ref::<sqlx::Error>(),
    };
    sql.and_then(sqlx::Error::as_database_error)
        .and_then(|error| error.code())
        .is_some_and(|code| code.starts_with("40"))
}

/// See [`Error::is_outcome_unknown`].
fn is_outcome_unknown(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::WorkerCrashed => true,
        // 08: connection lost. 57P: the server ends the session or shuts down.
        sqlx::Error::Database(error) => error
            .code()
            .is_some_and(|code| code.starts_with("08") || code.starts_with("57P")),
        _ => false,
    }
}

/// SQLSTATE prefixes of errors after which a retry may succeed.
const TRANSIENT: [&str; 9] = [
    "08",    // connection
    "25006", // no writes: a standby that is not promoted yet
    "25P03", // Postgres ended an idle transaction
    "25P04", // Postgres ended a long transaction
    "40",    // rollback: deadlock, serialisation
    "53",    // out of resources
    "55",    // lock not available
    "57",    // operator intervention: shutdown, cancel
    "58",    // system error
];

/// Whether a retry may succeed: the cause is the connection, the pool, a deadlock or a shutdown, and
/// not the statement.
pub fn is_transient(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::Protocol(_) => true,
        sqlx::Error::Database(error) => error
            .code()
            .is_some_and(|code| TRANSIENT.iter().any(|prefix| code.starts_with(prefix))),
        _ => false,
    }
}
