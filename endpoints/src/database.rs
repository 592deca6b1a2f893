//! Read access to the services' databases.

use std::time::Duration;

use anyhow::Context;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

/// Readers run next to the service and must not use up the server's connections.
const CONNECTIONS_MAX: u32 = 2;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Opens a small pool for reading a service's tables.
pub async fn connect(database_url: &str) -> anyhow::Result<PgPool> {
    PgPoolOptions::new()
        .max_connections(CONNECTIONS_MAX)
        .acquire_timeout(CONNECT_TIMEOUT)
        .connect(database_url)
        .await
        .context("connecting to the database")
}
