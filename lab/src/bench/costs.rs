//! What a stretch of the run cost: CPU time of every process, and what Postgres counted.

use std::collections::BTreeMap;

use anyhow::Context;
use endpoints::Service;
use sqlx::{Connection, PgConnection};
use testkit::postgres::database;

use super::rig::Rig;
use crate::measure::shipping::LAB_STATEMENT;
use crate::measure::usage;

/// Counters since the start of the system. Subtract two with [`Costs::since`].
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Costs {
    pub(crate) cpu_s: BTreeMap<String, f64>,
    pub(crate) wal_bytes: f64,
    pub(crate) wal_records: f64,
    pub(crate) databases: BTreeMap<String, DatabaseCosts>,
    /// By database and text.
    pub(crate) statements: BTreeMap<(String, String), StatementCosts>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct DatabaseCosts {
    pub(crate) rows_written: f64,
    pub(crate) commits: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, sqlx::FromRow)]
pub(crate) struct StatementCosts {
    pub(crate) calls: f64,
    pub(crate) ms: f64,
    pub(crate) rows: f64,
    pub(crate) wal_bytes: f64,
    pub(crate) wal_records: f64,
    /// Whole pages in the log: each page's first change after a checkpoint.
    pub(crate) wal_pages: f64,
    /// Shared buffers that it read, from the cache or from disk.
    pub(crate) buffers: f64,
}

impl Costs {
    pub(crate) async fn read(rig: &Rig) -> anyhow::Result<Self> {
        let names = database_names(rig)?;
        // Another database than those that are measured.
        let url = database::url(rig.order_url(), "postgres")?;
        let mut connection = PgConnection::connect(&url).await?;
        let (wal_bytes, wal_records) = wal(&mut connection)
            .await
            .context("reading the counters of the log")?;
        let databases = databases(&mut connection, &names)
            .await
            .context("reading the counters of the databases")?;
        let statements = statements(&mut connection, &names).await?;
        connection.close().await?;
        Ok(Self {
            cpu_s: usage::cpu_s(&rig.pids()),
            wal_bytes,
            wal_records,
            databases,
            statements,
        })
    }

    pub(crate) fn since(&self, before: &Costs) -> Self {
        Self {
            cpu_s: difference(&self.cpu_s, &before.cpu_s, |now, then| now - then),
            wal_bytes: self.wal_bytes - before.wal_bytes,
            wal_records: self.wal_records - before.wal_records,
            databases: difference(&self.databases, &before.databases, |now, then| {
                DatabaseCosts {
                    rows_written: now.rows_written - then.rows_written,
                    commits: now.commits - then.commits,
                }
            }),
            statements: difference(&self.statements, &before.statements, |now, then| {
                StatementCosts {
                    calls: now.calls - then.calls,
                    ms: now.ms - then.ms,
                    rows: now.rows - then.rows,
                    wal_bytes: now.wal_bytes - then.wal_bytes,
                    wal_records: now.wal_records - then.wal_records,
                    wal_pages: now.wal_pages - then.wal_pages,
                    buffers: now.buffers - then.buffers,
                }
            }),
        }
    }
}

/// Every value minus the earlier one of its key, which counts as zero if it is missing.
fn difference<K: Ord + Clone, V: Copy + Default>(
    now: &BTreeMap<K, V>,
    before: &BTreeMap<K, V>,
    minus: impl Fn(V, V) -> V,
) -> BTreeMap<K, V> {
    let then = |key: &K| before.get(key).copied().unwrap_or_default();
    now.iter()
        .map(|(key, value)| (key.clone(), minus(*value, then(key))))
        .collect()
}

/// The name of each service's database, with the service.
fn database_names(rig: &Rig) -> anyhow::Result<BTreeMap<String, Service>> {
    let mut names = BTreeMap::new();
    for service in Service::ALL {
        let url = reqwest::Url::parse(rig.system().database_url(service))?;
        names.insert(url.path().trim_start_matches('/').to_owned(), service);
    }
    Ok(names)
}

/// Bytes and records. The bytes are exact; a backend reports its records up to a second late.
async fn wal(connection: &mut PgConnection) -> sqlx::Result<(f64, f64)> {
    sqlx::query_as(
        "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8, wal_records::float8
         from pg_stat_wal",
    )
    .fetch_one(connection)
    .await
}

async fn databases(
    connection: &mut PgConnection,
    names: &BTreeMap<String, Service>,
) -> sqlx::Result<BTreeMap<String, DatabaseCosts>> {
    let rows: Vec<(String, f64, f64)> = sqlx::query_as(
        "select datname::text, (tup_inserted + tup_updated + tup_deleted)::float8, xact_commit::float8
         from pg_stat_database where datname = any($1)",
    )
    .bind(names.keys().cloned().collect::<Vec<_>>())
    .fetch_all(connection)
    .await?;
    let costs = rows.into_iter().map(|(name, rows_written, commits)| {
        let costs = DatabaseCosts {
            rows_written,
            commits,
        };
        (names[&name].name().to_owned(), costs)
    });
    Ok(costs.collect())
}

async fn statements(
    connection: &mut PgConnection,
    names: &BTreeMap<String, Service>,
) -> anyhow::Result<BTreeMap<(String, String), StatementCosts>> {
    install_statements(connection).await?;
    let rows: Vec<StatementRow> = sqlx::query_as(
        "select datname::text as database, query, sum(calls)::float8 as calls,
                sum(total_exec_time)::float8 as ms, sum(rows)::float8 as rows,
                sum(wal_bytes)::float8 as wal_bytes, sum(wal_records)::float8 as wal_records,
                sum(wal_fpi)::float8 as wal_pages,
                sum(shared_blks_hit + shared_blks_read)::float8 as buffers
         from pg_stat_statements join pg_database on pg_database.oid = dbid
         where datname = any($1) and position($2 in query) = 0
         group by datname, query",
    )
    .bind(names.keys().cloned().collect::<Vec<_>>())
    .bind(LAB_STATEMENT)
    .fetch_all(connection)
    .await
    .context("reading the counters of the statements")?;
    let costs = rows.into_iter().map(|row| {
        let database = names[&row.database].name().to_owned();
        ((database, row.query), row.costs)
    });
    Ok(costs.collect())
}

/// Makes `pg_stat_statements` readable in this database.
pub(super) async fn install_statements(connection: &mut PgConnection) -> anyhow::Result<()> {
    sqlx::raw_sql("create extension if not exists pg_stat_statements")
        .execute(connection)
        .await
        .context("pg_stat_statements is missing: install Postgres with its contrib modules")?;
    Ok(())
}

#[derive(sqlx::FromRow)]
struct StatementRow {
    database: String,
    query: String,
    #[sqlx(flatten)]
    costs: StatementCosts,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_that_is_new_counts_from_zero() {
        let costs = |cpu: &[(&str, f64)], wal_bytes| Costs {
            cpu_s: cpu
                .iter()
                .map(|(name, cpu_s)| ((*name).to_owned(), *cpu_s))
                .collect(),
            wal_bytes,
            ..Costs::default()
        };
        let before = costs(&[("order", 1.0), ("gone", 9.0)], 100.0);
        let now = costs(&[("order", 3.0), ("payment", 2.0)], 150.0);
        assert_eq!(
            now.since(&before),
            costs(&[("order", 2.0), ("payment", 2.0)], 50.0)
        );
    }
}
