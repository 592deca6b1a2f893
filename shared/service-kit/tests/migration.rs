//! `migration::run` on new, current and outdated databases.

#![allow(clippy::unwrap_used)]

use service_kit::migration;
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::{PgConnection, SqlStr};
use testkit::postgres::database;

const SHARED: (i64, &str) = (1, "create table shared ()");
const OWN: (i64, &str) = (101, "create table own ()");

fn folder((version, sql): (i64, &'static str)) -> Migrator {
    let sql = SqlStr::from_static(sql);
    let migration = Migration::new(version, "test".into(), MigrationType::Simple, sql, false);
    Migrator::with_migrations(vec![migration])
}

/// Runs the migrations as if each came from a folder of the repository.
async fn migrate(url: &str, migrations: &[(i64, &'static str)]) -> anyhow::Result<PgConnection> {
    let folders = migrations.iter().copied().map(folder).collect();
    migration::run(url, folders).await
}

async fn tables(connection: &mut PgConnection) -> Vec<String> {
    sqlx::query_scalar(
        "select tablename::text from pg_tables
         where schemaname = 'public' and tablename <> '_sqlx_migrations' order by 1",
    )
    .fetch_all(connection)
    .await
    .unwrap()
}

#[tokio::test]
async fn migrations_apply_once() {
    let url = database::create_for_test("migration").await.unwrap();
    for _ in 0..2 {
        let mut connection = migrate(&url, &[SHARED, OWN]).await.unwrap();
        assert_eq!(tables(&mut connection).await, ["own", "shared"]);
    }
}

#[tokio::test]
async fn database_of_an_earlier_version_is_rejected_unchanged() {
    // The same number for another table, and numbers that no longer exist. Version 1 is missing, so
    // it would be applied before sqlx compares version 101.
    let earlier = [
        (5, "create table earlier_shared ()"),
        (101, "create table earlier_own ()"),
        (102, "create table earlier_change ()"),
    ];
    let url = database::create_for_test("migration").await.unwrap();
    let mut connection = migrate(&url, &earlier).await.unwrap();
    let before = tables(&mut connection).await;
    let error = migrate(&url, &[SHARED, OWN]).await.unwrap_err().to_string();
    assert!(
        error.contains("earlier version of ChargeOnce") && error.contains("docker compose"),
        "{error}"
    );
    assert_eq!(tables(&mut connection).await, before);
}

#[tokio::test]
async fn migration_of_a_later_version_is_ignored() {
    let later = [SHARED, OWN, (102, "create table later ()")];
    let url = database::create_for_test("migration").await.unwrap();
    migrate(&url, &later).await.unwrap();
    let mut connection = migrate(&url, &[SHARED, OWN]).await.unwrap();
    assert_eq!(tables(&mut connection).await, ["later", "own", "shared"]);
}
