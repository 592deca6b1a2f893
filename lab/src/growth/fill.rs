//! Fills the tables with finished orders, by COPY.

use std::ops::Range;
use std::sync::Arc;

use anyhow::Context;
use chrono::{DateTime, Utc};
use endpoints::{PerService, Service};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testkit::progress::Progress;
use tokio::task::JoinSet;

use super::history::History;
use super::tables::{Kept, TABLES, Table, TableRows, check_complete};
use super::template::Template;
use crate::bench::rig::Rig;

/// Bytes that are sent to Postgres at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// Everything that the rows of other orders are made of.
pub(super) struct Filler {
    templates: Vec<Template>,
    /// One for each of [`TABLES`].
    rows: Vec<TableRows>,
    urls: PerService<String>,
}

impl Filler {
    /// Reads the rows of these orders, which are finished.
    pub(super) async fn read(rig: &Rig, orders: Vec<uuid::Uuid>) -> anyhow::Result<Self> {
        let urls = PerService::from_fn(|service| rig.system().database_url(service).to_owned());
        let mut templates: Vec<Template> = orders.into_iter().map(Template::new).collect();
        for service in Service::ALL {
            let mut connection = PgConnection::connect(urls.get(service)).await?;
            check_complete(&mut connection, service, templates.len()).await?;
            connection.close().await?;
        }
        let mut rows = Vec::new();
        for table in &TABLES {
            let mut connection = PgConnection::connect(urls.get(table.service)).await?;
            rows.push(table.read(&mut connection, &mut templates).await?);
            connection.close().await?;
        }
        Ok(Self {
            templates,
            rows,
            urls,
        })
    }

    /// Fills all tables. The services must not run.
    pub(super) async fn fill(
        self: &Arc<Self>,
        history: &History,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let mut databases = JoinSet::new();
        for service in Service::ALL {
            let (filler, history) = (Arc::clone(self), history.clone());
            let progress = progress.clone();
            databases.spawn(async move {
                let name = format!("    filling and vacuuming the database of {service}");
                progress
                    .step(&name, filler.fill_database(service, &history))
                    .await
            });
        }
        databases.join_all().await.into_iter().collect()
    }

    async fn fill_database(&self, service: Service, history: &History) -> anyhow::Result<()> {
        let mut connection = PgConnection::connect(self.urls.get(service)).await?;
        for (index, table) in TABLES.iter().enumerate() {
            if table.service != service {
                continue;
            }
            let orders = match table.kept {
                Kept::Always => 0..history.orders,
                Kept::Window => history.in_window(),
                Kept::Partition => {
                    for (from, until) in history.partitions() {
                        add_partition(&mut connection, from, until).await?;
                    }
                    history.in_outbox()
                }
            };
            self.copy(&mut connection, index, table.name, history, orders)
                .await?;
        }
        match service {
            Service::Fulfilment => self.reserve_stock(&mut connection).await?,
            Service::Payment => mark_reconciled(&mut connection).await?,
            _ => {}
        }
        // As in tables that grew slowly: rows are frozen, pages are known to be visible, statistics are right.
        sqlx::raw_sql("vacuum (freeze, analyze)")
            .execute(&mut connection)
            .await?;
        connection.close().await?;
        Ok(())
    }

    /// Copies the rows of these orders in one of [`TABLES`] into a table of the same shape.
    pub(super) async fn copy(
        &self,
        connection: &mut PgConnection,
        table: usize,
        into: &str,
        history: &History,
        orders: Range<u64>,
    ) -> anyhow::Result<()> {
        let Table { service, name, .. } = &TABLES[table];
        let rows = &self.rows[table];
        let statement = format!("copy {into} ({}) from stdin", rows.columns);
        let mut copy = connection.copy_in_raw(&statement).await?;
        let mut chunk = Vec::with_capacity(2 * CHUNK_BYTES);
        for order in orders {
            let template = (order % self.templates.len() as u64) as usize;
            for row in &rows.rows[template] {
                self.templates[template].write(row, history, order, &mut chunk);
            }
            if chunk.len() >= CHUNK_BYTES {
                copy.send(chunk.as_slice()).await?;
                chunk.clear();
            }
        }
        copy.send(chunk.as_slice()).await?;
        let finished = copy.finish().await;
        finished.with_context(|| format!("filling {service}.{name}"))?;
        Ok(())
    }

    /// The filled shipments took their items from the stock. As many were stocked in addition.
    async fn reserve_stock(&self, connection: &mut PgConnection) -> anyhow::Result<()> {
        sqlx::raw_sql(
            "update stock set reserved = taken.quantity
             from (select line ->> 'sku' as sku, sum((line ->> 'quantity')::bigint) as quantity
                   from shipments, jsonb_array_elements(lines) as line
                   where status = 'shipped' group by 1) as taken
             where taken.sku = stock.sku",
        )
        .execute(connection)
        .await?;
        Ok(())
    }
}

/// The reconciler has compared the filled charges, as it would have by now.
async fn mark_reconciled(connection: &mut PgConnection) -> anyhow::Result<()> {
    sqlx::raw_sql(
        "update reconciliation_progress set verified_to =
             (select max(charge_id collate \"C\") from payments where charge_id is not null)",
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Adds a partition under the name that the outbox gives it, unless it exists.
async fn add_partition(
    connection: &mut PgConnection,
    from: DateTime<Utc>,
    until: DateTime<Utc>,
) -> anyhow::Result<()> {
    let name = until.format("outbox_until_%Y%m%dt%H%M%S");
    let sql = format!(
        "create table if not exists {name} partition of outbox
             for values from ('{}') to ('{}')
             with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02)",
        from.to_rfc3339(),
        until.to_rfc3339()
    );
    let added = sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await;
    added.context("adding a partition to the outbox")?;
    Ok(())
}
