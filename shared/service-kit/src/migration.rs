//! `<service> migrate`: the tables of the shared crates first, then the service's own.

use anyhow::Context as _;
use sqlx::migrate::{Migrate as _, Migrator};
use sqlx::{Connection as _, PgConnection};

/// Where sqlx records what it has applied.
const HISTORY: &str = "_sqlx_migrations";

/// Applies the migrators in turn and returns the connection. They share one history table, so their
/// version numbers must differ (see migrations/README.md), and each ignores the others' versions.
pub async fn run(database_url: &str, migrators: Vec<Migrator>) -> anyhow::Result<PgConnection> {
    let mut connection = PgConnection::connect(database_url)
        .await
        .context("connecting to migrate: is Postgres running, and does the database exist?")?;
    check_history(&mut connection, &migrators).await?;
    for mut migrator in migrators {
        migrator.set_ignore_missing(true);
        migrator
            .run(&mut connection)
            .await
            .context("applying migrations")?;
    }
    Ok(connection)
}

/// Fails if a migration was applied in another form than it has here. We check all migrators before
/// the first one runs, so that a database that cannot be upgraded is left unchanged.
///
/// A version that is unknown here is no error: a newer release may have added it, and this release
/// must still be able to start after a rollback.
async fn check_history(
    connection: &mut PgConnection,
    migrators: &[Migrator],
) -> anyhow::Result<()> {
    let exists: bool = sqlx::query_scalar("select to_regclass($1) is not null")
        .bind(HISTORY)
        .fetch_one(&mut *connection)
        .await
        .context("looking for the history of migrations")?;
    if !exists {
        return Ok(());
    }
    let applied = connection
        .list_applied_migrations(HISTORY)
        .await
        .context("reading the history of migrations")?;
    for migration in migrators.iter().flat_map(Migrator::iter) {
        let changed = applied.iter().any(|applied| {
            applied.version == migration.version && applied.checksum != migration.checksum
        });
        anyhow::ensure!(
            !changed,
            "this database was created by an earlier version of ChargeOnce and cannot be upgraded \
             (migration {} has changed since). Recreate it: run `docker compose down -v` if it is in \
             a container; otherwise drop and create the database, or delete the state directory",
            migration.version
        );
    }
    Ok(())
}
