//! A store at the end of a proxy, which can go away in each way that a store can.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use reqwest::Url;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::time::Instant;
use uuid::Uuid;

use crate::fault_proxy::FaultProxy;

/// Longest time that ending the service's sessions may take: long enough for a busy machine.
const SESSIONS_END_MAX: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Nobody listens.
    Refused,
    /// Connections are made, and no word comes through.
    Silent,
    /// Postgres has no connection left to give.
    Exhausted,
}

#[derive(Debug)]
pub struct StoreBehindProxy {
    /// A service reaches the store by the proxy's URL.
    pub proxy: FaultProxy,
    /// The test itself goes around the proxy.
    pub database_url: String,
    /// The service's role: an ordinary one, because limits do not hold for a superuser.
    role: String,
}

impl StoreBehindProxy {
    /// In front of a database that has its tables already.
    pub async fn start(database_url: String) -> anyhow::Result<Self> {
        let role = format!("service_{}", Uuid::new_v4().simple());
        let mut url = Url::parse(&database_url).context("the database URL cannot be read")?;
        url.set_username(&role)
            .ok()
            .context("the URL takes no role")?;
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
            Outage::Refused => self.proxy.close(),
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
            Outage::Refused | Outage::Silent => self.proxy.open(),
            Outage::Exhausted => self.limit_connections(-1).await?,
        }
        Ok(())
    }

    /// How many of the service's sessions wait for a lock at this moment.
    pub async fn sessions_waiting_for_locks(&self) -> anyhow::Result<i64> {
        let waiting = "select count(*) from pg_stat_activity
                       where usename = $1 and wait_event_type = 'Lock'";
        let mut outside = self.outside().await?;
        let count = sqlx::query_scalar(waiting).bind(&self.role);
        Ok(count.fetch_one(&mut outside).await?)
    }

    async fn limit_connections(&self, limit: i32) -> anyhow::Result<()> {
        let name = self.database_url.rsplit('/').next().unwrap_or_default();
        let alter = format!("alter database \"{name}\" connection limit {limit}");
        self.run(alter).await
    }

    async fn end_sessions(&self) -> anyhow::Result<()> {
        let end = "select pg_terminate_backend(pid) from pg_stat_activity where usename = $1";
        let mut outside = self.outside().await?;
        let deadline = Instant::now() + SESSIONS_END_MAX;
        loop {
            let ended = sqlx::query(end).bind(&self.role).execute(&mut outside);
            if ended.await?.rows_affected() == 0 {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "sessions do not end");
            tokio::time::sleep(POLL).await;
        }
    }

    async fn run(&self, statements: String) -> anyhow::Result<()> {
        let mut outside = self.outside().await?;
        // Made of a name and a number of our own.
        sqlx::raw_sql(AssertSqlSafe(statements))
            .execute(&mut outside)
            .await?;
        Ok(())
    }

    async fn outside(&self) -> anyhow::Result<PgConnection> {
        Ok(PgConnection::connect(&self.database_url).await?)
    }
}
