//! `<service> migrate`: the shared tables first, then the service's own.

use anyhow::Context as _;
use sqlx::migrate::Migrator;
use sqlx::{Connection, PgConnection};

/// Applies the migrators in turn over one connection. They share one history table, so each is told
/// to overlook the versions of the other; numbers must not collide.
pub async fn run(database_url: &str, migrators: Vec<Migrator>) -> anyhow::Result<()> {
    let mut connection = PgConnection::connect(database_url)
        .await
        .context("connecting to migrate: is Postgres up, and does the database exist?")?;
    for mut migrator in migrators {
        migrator.set_ignore_missing(true);
        migrator
            .run(&mut connection)
            .await
            .context("applying migrations")?;
    }
    connection.close().await.context("closing the connection")
}
