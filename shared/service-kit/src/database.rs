//! The pool, with a limit on everything that can wait.

use std::time::Duration;

use anyhow::Context as _;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};

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
        // A dead connection shows itself on use and is replaced; asking first costs a round trip.
        .test_before_acquire(false)
        .connect_lazy_with(options))
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
