//! A database with an outbox, a topic, and relays between them.

use std::time::Duration;

use events::{Envelope, FulfilmentShipped, Origin};
use operators::{TokenList, Tokens};
use outbox::{Relay, Settings, Wake, enqueue, routes};
use sqlx::Connection as _;
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use testkit::postgres::template;
use testkit::test_topic::Received;
use testkit::{TestTopic, operator};

pub(crate) const PARTITIONS: i32 = 3;

pub(crate) struct Harness {
    pub(crate) pool: PgPool,
    pub(crate) topic: TestTopic,
    pub(crate) wake: Wake,
}

async fn migrate(url: String) -> anyhow::Result<()> {
    let folders = vec![
        sqlx::migrate!("../../migrations/outbox"),
        sqlx::migrate!("../../migrations/operators"),
    ];
    let connection = service_kit::migration::run(&url, folders).await?;
    Ok(connection.close().await?)
}

impl Harness {
    pub(crate) async fn create() -> Self {
        let url = template::copy_for_test("outbox", migrate).await.unwrap();
        let pool = PgPoolOptions::new()
            .max_connections(4)
            .connect(&url)
            .await
            .unwrap();
        Self {
            pool,
            topic: TestTopic::create("outbox", PARTITIONS).await,
            wake: Wake::default(),
        }
    }

    /// Takes shards over quickly, so that tests with several relays are fast.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::new(&self.topic.brokers, &self.topic.name);
        settings.rebalance_interval = Duration::from_millis(50);
        settings.poll_interval = Duration::from_millis(20);
        settings
    }

    pub(crate) fn relay(&self, settings: Settings) -> Relay {
        let database = (*self.pool.connect_options()).clone();
        Relay::new(settings, database, self.wake.clone()).unwrap()
    }

    /// A relay that runs until the token is cancelled or the task is aborted.
    pub(crate) fn run(
        &self,
        settings: Settings,
    ) -> (CancellationToken, JoinHandle<anyhow::Result<()>>) {
        let shutdown = CancellationToken::new();
        let relay = self.relay(settings).run(shutdown.clone());
        (shutdown, tokio::spawn(relay))
    }

    /// Serves the outbox's operator routes until the test ends; returns their base URL.
    pub(crate) async fn operator_url(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let tokens = Tokens::parse(&TokenList::from(operator::setting())).unwrap();
        let table = routes(self.pool.clone(), self.wake.clone());
        let table = operators::finish(table, tokens, self.pool.clone());
        tokio::spawn(async move { axum::serve(listener, table).await });
        url
    }

    /// Writes and commits the events.
    pub(crate) async fn write(&self, events: &[Envelope]) {
        let mut tx = self.pool.begin().await.unwrap();
        enqueue(&mut tx, events).await.unwrap();
        tx.commit().await.unwrap();
    }

    pub(crate) async fn unpublished(&self) -> i64 {
        sqlx::query_scalar("select count(*) from outbox where published_at is null")
            .fetch_one(&self.pool)
            .await
            .unwrap()
    }

    pub(crate) async fn all_published(&self) {
        eventually("everything is published", async || {
            self.unpublished().await == 0
        })
        .await;
    }

    /// Ids of the messages in the topic, in the order of each partition.
    pub(crate) async fn ids(&self) -> Vec<String> {
        let messages = self.topic.read().await;
        messages.iter().map(|got| got.id().to_owned()).collect()
    }

    /// Operator, action, subject and reason of each audit row.
    pub(crate) async fn audit(&self) -> Vec<[String; 4]> {
        sqlx::query_scalar(
            "select array[operator, action, subject, reason] from audit_log order by id",
        )
        .fetch_all(&self.pool)
        .await
        .unwrap()
    }

    /// How many shards each relay's session holds, fewest first.
    pub(crate) async fn shares(&self) -> Vec<i64> {
        sqlx::query_scalar(
            "select count(*) from pg_locks
             where locktype = 'advisory' and mode = 'ExclusiveLock' and granted
               and database = (select oid from pg_database where datname = current_database())
             group by pid order by 1",
        )
        .fetch_all(&self.pool)
        .await
        .unwrap()
    }
}

/// The audit row of a change by the demo operator.
pub(crate) fn audit_row(action: &str, subject: &str) -> [String; 4] {
    [operator::NAME, action, subject, operator::REASON].map(str::to_owned)
}

/// The n-th event of an order.
pub(crate) fn event(order_id: Uuid, number: i32) -> Envelope {
    let event = FulfilmentShipped {
        v: 1,
        order_id,
        attempt: number,
    };
    let origin = Origin {
        source: "test",
        correlation_id: "corr-1",
        traceparent: None,
    };
    Envelope::seal(origin, &event).unwrap()
}

/// Larger than a producer accepts by default.
const TOO_LARGE: usize = 1_100_000;

/// The n-th event of an order, which no broker accepts.
pub(crate) fn oversized(order_id: Uuid, number: i32) -> Envelope {
    let mut event = event(order_id, number);
    event.payload = format!("\"{}\"", "x".repeat(TOO_LARGE));
    event
}

/// The numbers of one order's events, in the order of the topic.
pub(crate) fn numbers(messages: &[Received], order_id: Uuid) -> Vec<i32> {
    let key = order_id.to_string();
    let of_order = messages.iter().filter(|got| got.key == key);
    of_order
        .map(|got| serde_json::from_str::<FulfilmentShipped>(&got.payload))
        .map(|event| event.unwrap().attempt)
        .collect()
}

pub(crate) use testkit::eventually;
