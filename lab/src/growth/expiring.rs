//! Rows whose window ends exactly when the measurement begins, so that the reaper removes as many orders as come in.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use endpoints::Service;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::time::Instant;

use super::fill::Filler;
use super::history::{History, WINDOW_SECONDS};
use super::tables::{Kept, TABLES};
use crate::bench::rig::Rig;

/// The partition that the reaper drops.
const PARTITION: &str = "outbox_expired";
const REAPED_WITHIN: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(200);

/// Expired rows that no other session sees before [`Expiring::begin`].
pub(super) struct Expiring {
    databases: Vec<Database>,
    /// Rows of orders before this time are expired.
    before: DateTime<Utc>,
    /// The range of the partition.
    partition: (DateTime<Utc>, DateTime<Utc>),
}

struct Database {
    service: Service,
    url: String,
    /// In a transaction that has written the rows.
    writer: PgConnection,
}

impl Expiring {
    /// Writes the rows of this many orders.
    pub(super) async fn prepare(
        rig: &Rig,
        filler: &Arc<Filler>,
        history: &History,
        orders: u64,
    ) -> anyhow::Result<Self> {
        let (expired, in_outbox) = (history.expired(orders), history.expired_in_outbox(orders));
        let first = DateTime::from_timestamp_micros(history.time_us(in_outbox.start));
        let first = first.context("a time out of range")?;
        let mut databases = Vec::new();
        for service in Service::ALL {
            let url = rig.system().database_url(service).to_owned();
            let mut writer = PgConnection::connect(&url).await?;
            let tables = || {
                TABLES
                    .iter()
                    .enumerate()
                    .filter(|(_, it)| it.service == service)
            };
            for (index, _) in tables().filter(|(_, it)| it.kept == Kept::Partition) {
                create_partition(&mut writer).await?;
                let copied = filler.copy(&mut writer, index, PARTITION, history, in_outbox.clone());
                copied.await?;
            }
            execute(&mut writer, "begin /* lab */").await?;
            for (index, table) in tables().filter(|(_, it)| it.kept == Kept::Window) {
                let copied = filler.copy(&mut writer, index, table.name, history, expired.clone());
                copied.await?;
            }
            databases.push(Database {
                service,
                url,
                writer,
            });
        }
        let window_begins = DateTime::from_timestamp_micros(history.time_us(expired.end));
        Ok(Self {
            databases,
            before: window_begins.context("a time out of range")?,
            partition: (
                first - TimeDelta::seconds(1),
                history.partitions_kept_from(),
            ),
        })
    }

    /// Shows the rows to the reapers.
    pub(super) async fn begin(&mut self) -> anyhow::Result<()> {
        let (from, until) = self.partition;
        for Database {
            service, writer, ..
        } in &mut self.databases
        {
            if keeps(*service, Kept::Partition) {
                let sql = format!(
                    "alter table outbox attach partition {PARTITION} for values from ('{}') to ('{}') /* lab */",
                    from.to_rfc3339(),
                    until.to_rfc3339()
                );
                execute(writer, &sql).await?;
            }
            execute(writer, "commit /* lab */").await?;
        }
        Ok(())
    }

    /// Waits until the reapers have removed everything.
    pub(super) async fn wait_until_reaped(self) -> anyhow::Result<()> {
        let deadline = Instant::now() + REAPED_WITHIN;
        for Database {
            service,
            url,
            writer,
        } in self.databases
        {
            writer.close().await?;
            let mut reader = PgConnection::connect(&url).await?;
            while let Some(left) = self::left(&mut reader, service, self.before).await? {
                ensure!(
                    Instant::now() < deadline,
                    "the reaper of {service} left {left} for {REAPED_WITHIN:?}"
                );
                tokio::time::sleep(POLL).await;
            }
            reader.close().await?;
        }
        Ok(())
    }
}

fn keeps(service: Service, kept: Kept) -> bool {
    TABLES
        .iter()
        .any(|it| it.service == service && it.kept == kept)
}

/// Indexed like every partition, so that it is attached without building an index.
async fn create_partition(connection: &mut PgConnection) -> anyhow::Result<()> {
    let sql = format!(
        "create table {PARTITION} (like outbox including defaults including constraints);
         create index on {PARTITION} (((shard::bigint << 48) + id))
             where published_at is null and not held;
         create index on {PARTITION} (subject) where held;
         create index on {PARTITION} (subject) where published_at is not null;"
    );
    execute(connection, &sql).await
}

async fn execute(connection: &mut PgConnection, sql: &str) -> anyhow::Result<()> {
    let executed = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
    executed.execute(connection).await?;
    Ok(())
}

/// What the reaper of a service has not removed yet.
async fn left(
    connection: &mut PgConnection,
    service: Service,
    before: DateTime<Utc>,
) -> anyhow::Result<Option<&'static str>> {
    let exists = |table| {
        TABLES
            .iter()
            .any(|it| it.service == service && it.name == table)
    };
    let expired_keys =
        "select exists (select from idempotency_keys where expires_at < $1) /* lab */";
    let processed =
        "select exists (select from processed_messages where processed_at < $1) /* lab */";
    for (table, sql, before) in [
        (
            "idempotency_keys",
            expired_keys,
            before + TimeDelta::seconds(WINDOW_SECONDS),
        ),
        ("processed_messages", processed, before),
    ] {
        if !exists(table) {
            continue;
        }
        let found: bool = sqlx::query_scalar(sql)
            .bind(before)
            .fetch_one(&mut *connection)
            .await?;
        if found {
            return Ok(Some(table));
        }
    }
    let partition: bool = sqlx::query_scalar("select to_regclass($1) is not null /* lab */")
        .bind(PARTITION)
        .fetch_one(connection)
        .await?;
    Ok(partition.then_some(PARTITION))
}
