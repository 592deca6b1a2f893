//! `<service> migrate`: the tables of the shared crates first, then the service's own.

use anyhow::Context as _;
use sqlx::migrate::{Migrate as _, Migrator};
use sqlx::{Connection as _, PgConnection};

/// The table in which sqlx records applied migrations.
const HISTORY: &str = "_sqlx_migrations";

/// Applies all migrations in the order of their versions and returns the connection. The folders share
/// one history table, so their version numbers must differ (see migrations/README.md).
pub async fn run(database_url: &str, folders: Vec<Migrator>) -> anyhow::Result<PgConnection> {
    let migrations = folders
        .into_iter()
        .flat_map(|folder| folder.migrations.into_owned());
    let mut migrator = Migrator::with_migrations(migrations.collect());
    // After a rollback the history may have versions of a newer release, which are unknown here.
    migrator.set_ignore_missing(true);
    let mut connection = PgConnection::connect(database_url)
        .await
        .context("connecting to migrate: is Postgres running, and does the database exist?")?;
    check_history(&mut connection, &migrator).await?;
    migrator
        .run(&mut connection)
        .await
        .context("applying migrations")?;
    Ok(connection)
}

/// Fails if an applied migration differs from the one in this build. sqlx would detect that too,
/// but only after it has applied the migrations before it.
async fn check_history(connection: &mut PgConnection, migrator: &Migrator) -> anyhow::Result<()> {
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
    for migration in migrator.iter() {
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
