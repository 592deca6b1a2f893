//! A database behind a fault proxy, which can become unreachable in three ways.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use reqwest::Url;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::time::Instant;
use uuid::Uuid;

use crate::fault_proxy::FaultProxy;

/// Longest wait for the service's sessions to end: long enough for a busy machine.
const SESSIONS_END_MAX: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// A way in which the store is unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// The port is closed: no connection can be opened.
    Closed,
    /// Connections are accepted, and no byte passes.
    Silent,
    /// Postgres has no connection left to give.
    Exhausted,
}

/// A store whose outages a test controls.
#[derive(Debug)]
pub struct StoreBehindProxy {
    /// The service connects through the proxy.
    pub proxy: FaultProxy,
    /// The test connects directly.
    pub database_url: String,
    /// The service's role. Not a superuser, because connection limits do not apply to superusers.
    role: String,
}

impl StoreBehindProxy {
    /// Starts a proxy in front of a database that already has its tables.
    pub async fn start(database_url: String) -> anyhow::Result<Self> {
        let role = format!("service_{}", Uuid::new_v4().simple());
        let mut url = Url::parse(&database_url).context("the database URL is invalid")?;
        url.set_username(&role)
            .ok()
            .context("the URL cannot have a user")?;
        let store = Self {
            proxy: FaultProxy::to(url.as_str()).await?,
            database_url,
            role,
        };
        let role = &store.role;
        let statements = format!(
            "create role {role} login;
             grant all on all tables in schema public to {role};
             grant all on all sequences in schema public to {role}"
        );
        store.run(statements).await?;
        Ok(store)
    }

    pub async fn begin(&self, outage: Outage) -> anyhow::Result<()> {
        match outage {
            Outage::Closed => self.proxy.close(),
            Outage::Silent => self.proxy.silence(),
            Outage::Exhausted => {
                self.limit_connections(0).await?;
                self.end_sessions().await?;
            }
        }
        Ok(())
    }

    pub async fn end(&self, outage: Outage) -> anyhow::Result<()> {
        match outage {
            Outage::Closed | Outage::Silent => self.proxy.open(),
            Outage::Exhausted => self.limit_connections(-1).await?,
        }
        Ok(())
    }

    /// How many of the service's sessions wait for a lock now.
    pub async fn sessions_waiting_for_locks(&self) -> anyhow::Result<i64> {
        let waiting = "select count(*) from pg_stat_activity
                       where usename = $1 and wait_event_type = 'Lock'";
        let mut direct = self.direct().await?;
        let count = sqlx::query_scalar(waiting).bind(&self.role);
        Ok(count.fetch_one(&mut direct).await?)
    }

    async fn limit_connections(&self, limit: i32) -> anyhow::Result<()> {
        let name = self.database_url.rsplit('/').next().unwrap_or_default();
        let alter = format!("alter database \"{name}\" connection limit {limit}");
        self.run(alter).await
    }

    async fn end_sessions(&self) -> anyhow::Result<()> {
        let end = "select pg_terminate_backend(pid) from pg_stat_activity where usename = $1";
        let mut direct = self.direct().await?;
        let deadline = Instant::now() + SESSIONS_END_MAX;
        loop {
            let ended = sqlx::query(end).bind(&self.role).execute(&mut direct);
            if ended.await?.rows_affected() == 0 {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "the service's sessions do not end"
            );
            tokio::time::sleep(POLL).await;
        }
    }

    async fn run(&self, statements: String) -> anyhow::Result<()> {
        let mut direct = self.direct().await?;
        // The statements contain only a name and a number from this module.
        sqlx::raw_sql(AssertSqlSafe(statements))
            .execute(&mut direct)
            .await?;
        Ok(())
    }

    async fn direct(&self) -> anyhow::Result<PgConnection> {
        Ok(PgConnection::connect(&self.database_url).await?)
    }
}
