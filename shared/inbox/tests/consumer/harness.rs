//! A database with the inbox tables and countable effects, a topic, and consumers between them.

use std::time::Duration;

use events::{Envelope, FulfilmentShipped};
use inbox::{Consumer, Settings, StepOutcome};
use sqlx::Connection as _;
use sqlx::postgres::{PgPool, PgPoolOptions};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::effects::Effects;
use crate::operator::Operator;
use testkit::TestTopic;
use testkit::postgres::template;
use testkit::test_topic::sealed;

/// Partitions of each test's topic.
pub(crate) const PARTITIONS: i32 = 3;

/// Longest wait of one step for a message.
pub(crate) const WAIT_MAX: Duration = testkit::polling::WAIT_MAX;

pub(crate) struct Harness {
    pub(crate) url: String,
    pub(crate) pool: PgPool,
    pub(crate) topic: TestTopic,
    pub(crate) group: String,
}

async fn migrate(url: String) -> anyhow::Result<()> {
    let folders = vec![
        sqlx::migrate!("../../migrations/inbox"),
        sqlx::migrate!("../../migrations/operators"),
    ];
    let mut connection = service_kit::migration::run(&url, folders).await?;
    // No unique constraint: a message that has its effect twice must be visible.
    sqlx::raw_sql(
        "create table effects (id bigint generated always as identity primary key,
                               message_id uuid, subject uuid, number integer)",
    )
    .execute(&mut connection)
    .await?;
    Ok(connection.close().await?)
}

impl Harness {
    pub(crate) async fn create() -> Self {
        let url = template::copy_for_test("inbox", migrate).await.unwrap();
        let pool = PgPoolOptions::new()
            .max_connections(4)
            .connect(&url)
            .await
            .unwrap();
        Self {
            url,
            pool,
            topic: TestTopic::create("inbox", PARTITIONS).await,
            group: format!("inbox-{}", Uuid::new_v4()),
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::new(&self.topic.brokers, &self.topic.name, &self.group);
        settings.fetch_wait_max_ms = 50;
        settings.retry_pause = Duration::from_millis(50);
        settings
    }

    pub(crate) fn consumer(&self, settings: Settings, handler: Effects) -> Consumer<Effects> {
        Consumer::new(settings, self.pool.clone(), handler).unwrap()
    }

    /// Stops the consumer once the offsets that it has committed add up to this.
    pub(crate) async fn stop_when_committed(
        &self,
        mut consumer: Consumer<Effects>,
        offset_sum: i64,
    ) {
        loop {
            let committed = self.topic.committed(&self.group);
            let sum: i64 = committed.iter().flatten().sum();
            assert!(sum <= offset_sum, "{committed:?}");
            if sum == offset_sum {
                break;
            }
            let step = consumer.step(Duration::from_millis(50)).await.unwrap();
            assert_eq!(step, StepOutcome::Idle);
        }
    }

    /// A consumer that runs until the token is cancelled.
    pub(crate) fn run(
        &self,
        settings: Settings,
        handler: Effects,
    ) -> (CancellationToken, JoinHandle<anyhow::Result<()>>) {
        let shutdown = CancellationToken::new();
        let consumer = self.consumer(settings, handler).run(shutdown.clone());
        (shutdown, tokio::spawn(consumer))
    }

    /// Like [`Self::run`], with an operator for the consumer.
    pub(crate) async fn run_operated(
        &self,
        settings: Settings,
        handler: Effects,
    ) -> (Operator, CancellationToken, JoinHandle<anyhow::Result<()>>) {
        let shutdown = CancellationToken::new();
        let consumer = self.consumer(settings, handler);
        let operator = Operator::of(&consumer, &self.pool).await;
        let task = tokio::spawn(consumer.run(shutdown.clone()));
        (operator, shutdown, task)
    }

    /// The numbers of an order's effects, in the order in which they happened.
    pub(crate) async fn effects(&self, subject: Uuid) -> Vec<i32> {
        sqlx::query_scalar("select number from effects where subject = $1 order by id")
            .bind(subject)
            .fetch_all(&self.pool)
            .await
            .unwrap()
    }

    pub(crate) async fn effect_count(&self) -> i64 {
        self.count("select count(*) from effects").await
    }

    pub(crate) async fn processed_count(&self) -> i64 {
        self.count("select count(*) from processed_messages").await
    }

    pub(crate) async fn parked_count(&self) -> i64 {
        self.count("select count(*) from parked_messages").await
    }

    /// The queue of an order: the number of each message, and whether it is the failed one.
    pub(crate) async fn queue(&self, subject: Uuid) -> Vec<(i32, bool)> {
        sqlx::query_as(
            "select (convert_from(payload, 'UTF8')::jsonb->>'attempt')::integer, failed
             from parked_messages where subject = $1 order by id",
        )
        .bind(subject)
        .fetch_all(&self.pool)
        .await
        .unwrap()
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

    /// Waits until a statement is blocked by a lock.
    pub(crate) async fn blocked(&self) {
        let blocked = "select count(*) from pg_stat_activity
                       where datname = current_database() and wait_event_type = 'Lock'";
        eventually("a statement waits for a lock", async || {
            self.count(blocked).await > 0
        })
        .await;
    }

    pub(crate) async fn execute(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&self.pool).await.unwrap();
    }

    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        let count = sqlx::query_scalar(sql).fetch_one(&self.pool);
        count.await.unwrap()
    }
}

/// The n-th event of an order.
pub(crate) fn event(order_id: Uuid, number: i32) -> Envelope {
    let event = FulfilmentShipped {
        v: 1,
        order_id,
        attempt: number,
    };
    sealed("test", &event)
}

/// Steps until this many messages were taken, none of which may be parked. Returns the numbers of
/// fresh, duplicate and skipped messages.
pub(crate) async fn drain(consumer: &mut Consumer<Effects>, messages: usize) -> [usize; 3] {
    let [fresh, duplicates, parked, skipped] = drain_parking(consumer, messages).await;
    assert_eq!(parked, 0);
    [fresh, duplicates, skipped]
}

/// Steps until this many messages were taken. Returns the numbers of fresh, duplicate, parked and
/// skipped messages.
pub(crate) async fn drain_parking(consumer: &mut Consumer<Effects>, messages: usize) -> [usize; 4] {
    let mut sums = [0; 4];
    while sums.iter().sum::<usize>() < messages {
        match consumer.step(WAIT_MAX).await.unwrap() {
            StepOutcome::Idle => panic!("only {sums:?} of {messages} messages arrived"),
            StepOutcome::Processed {
                fresh,
                duplicates,
                parked,
                skipped,
            } => {
                for (sum, more) in sums.iter_mut().zip([fresh, duplicates, parked, skipped]) {
                    *sum += more;
                }
            }
        }
    }
    sums
}

pub(crate) use testkit::eventually;
