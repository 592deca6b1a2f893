//! A fulfilment database, a topic, and services that use both.

use clap::Parser as _;
use fulfilment::config::{Command, Migration, Program};
use fulfilment::startup::build;
use fulfilment::store::stock;
use sqlx::postgres::{PgPool, PgPoolOptions};
use testkit::postgres::template;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::topic::Topic;

pub(crate) struct Harness {
    pub(crate) url: String,
    pub(crate) pool: PgPool,
    pub(crate) topic: Topic,
    pub(crate) group: String,
}

pub(crate) struct Running {
    pub(crate) port: u16,
    shutdown: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Running {
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

impl Harness {
    pub(crate) async fn create(skus: &[(&str, i64)]) -> Self {
        let migrate = |database_url| {
            fulfilment::startup::migrate(Migration {
                database_url,
                demo_data: false,
            })
        };
        let url = template::copy_for_test("fulfilment", migrate).await;
        let url = url.unwrap();
        let pool = PgPoolOptions::new()
            .max_connections(4)
            .connect(&url)
            .await
            .unwrap();
        let mut connection = pool.acquire().await.unwrap();
        for (sku, available) in skus {
            stock::add(&mut connection, sku, *available).await.unwrap();
        }
        drop(connection);
        Self {
            url,
            pool,
            topic: Topic::create().await,
            group: format!("fulfilment-{}", Uuid::new_v4()),
        }
    }

    /// Starts the whole service, as `main` does, as a member of the consumer group.
    pub(crate) async fn start(&self, group: &str) -> Running {
        self.start_on(&self.url, group, &[]).await
    }

    /// The same with another database URL and more flags.
    pub(crate) async fn start_on(&self, url: &str, group: &str, more: &[[&str; 2]]) -> Running {
        let flags = [
            ["fulfilment", "serve"],
            ["--listen", "127.0.0.1:0"],
            ["--operator-listen", "127.0.0.1:0"],
            ["--database-url", url],
            ["--kafka-brokers", &self.topic.brokers],
            ["--kafka-topic", &self.topic.name],
            ["--kafka-group", group],
            ["--kafka-fetch-wait-max-ms", "50"],
        ];
        let flags = flags.iter().chain(more).flatten();
        let Command::Serve(config) = Program::parse_from(flags).command else {
            unreachable!("the flags say serve");
        };
        let application = build(*config).await.unwrap();
        let port = application.port().unwrap();
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(application.run_until(shutdown.clone()));
        Running {
            port,
            shutdown,
            task,
        }
    }

    /// The available and the reserved quantity of a SKU.
    pub(crate) async fn stock(&self, sku: &str) -> (i64, i64) {
        sqlx::query_as("select available, reserved from stock where sku = $1")
            .bind(sku)
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        let count = sqlx::query_scalar(sql).fetch_one(&self.pool);
        count.await.unwrap()
    }

    /// The number of shipments with this status.
    pub(crate) async fn shipments(&self, status: &str) -> i64 {
        sqlx::query_scalar("select count(*) from shipments where status = $1")
            .bind(status)
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    /// The number of events of this type in the outbox.
    pub(crate) async fn events(&self, event_type: &str) -> i64 {
        sqlx::query_scalar("select count(*) from outbox where event_type = $1")
            .bind(event_type)
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    /// Waits until this many orders are decided.
    pub(crate) async fn decided(&self, orders: i64) {
        eventually("all orders are decided", async || {
            self.count("select count(*) from shipments").await >= orders
        })
        .await;
    }

    /// Waits until this many messages were processed, by all groups together.
    pub(crate) async fn processed(&self, messages: i64) {
        eventually("all messages are processed", async || {
            self.count("select count(*) from processed_messages").await >= messages
        })
        .await;
    }

    pub(crate) async fn execute(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&self.pool).await.unwrap();
    }
}

pub(crate) use testkit::eventually;
