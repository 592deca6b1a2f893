//! A store at the end of a wire, which can go away in each way that a store can.

use lab::wire::Wire;
use order::config::Config;
use reqwest::Url;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use uuid::Uuid;

use crate::eventually;
use crate::service::{Service, migrated, pool};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Outage {
    /// Nobody listens.
    Refused,
    /// Connections are made, and no word comes through.
    Silent,
    /// Postgres has no connection left to give.
    Exhausted,
}

pub(crate) struct FarStore {
    pub(crate) wire: Wire,
    database_url: String,
    /// The service's role: an ordinary one, because limits do not hold for a superuser.
    role: String,
}

impl FarStore {
    pub(crate) async fn create() -> Self {
        let database_url = migrated().await;
        let role = format!("service_{}", Uuid::new_v4().simple());
        let mut url = Url::parse(&database_url).unwrap();
        url.set_username(&role).unwrap();
        let store = Self {
            wire: Wire::to(url.as_str()).await.unwrap(),
            database_url,
            role,
        };
        let role = &store.role;
        store
            .run(format!(
                "create role {role} login;
                 grant all on all tables in schema public to {role};
                 grant all on all sequences in schema public to {role}"
            ))
            .await;
        store
    }

    /// A service that reaches the store by the wire; the test itself goes around it.
    pub(crate) async fn service(&self, change: impl FnOnce(&mut Config)) -> Service {
        let mut service = Service::start_on(&self.wire.url, change).await;
        service.pool = pool(&self.database_url);
        service
    }

    pub(crate) async fn begin(&self, outage: Outage) {
        match outage {
            Outage::Refused => self.wire.close(),
            Outage::Silent => self.wire.silence(),
            Outage::Exhausted => {
                self.limit_connections(0).await;
                self.end_sessions().await;
            }
        }
    }

    pub(crate) async fn end(&self, outage: Outage) {
        match outage {
            Outage::Refused | Outage::Silent => self.wire.open(),
            Outage::Exhausted => self.limit_connections(-1).await,
        }
    }

    async fn limit_connections(&self, limit: i32) {
        let name = self.database_url.rsplit('/').next().unwrap();
        let alter = format!("alter database \"{name}\" connection limit {limit}");
        self.run(alter).await;
    }

    async fn end_sessions(&self) {
        let mut outside = self.outside().await;
        eventually("all sessions are gone", async || {
            let end = "select pg_terminate_backend(pid) from pg_stat_activity where usename = $1";
            let ended = sqlx::query(end).bind(&self.role).execute(&mut outside);
            (ended.await.unwrap().rows_affected() == 0).then_some(())
        })
        .await;
    }

    async fn run(&self, statements: String) {
        let mut outside = self.outside().await;
        let statements = AssertSqlSafe(statements);
        sqlx::raw_sql(statements)
            .execute(&mut outside)
            .await
            .unwrap();
    }

    async fn outside(&self) -> PgConnection {
        PgConnection::connect(&self.database_url).await.unwrap()
    }
}
