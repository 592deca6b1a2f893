//! A payment database, a mock provider, and the parts of the service, which tests step.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use leases::{Done, Record as _};
use payment::charger::{Answered, ChargerQueues};
use payment::config::Migration;
use payment::recorder::{self, Recorder};
use payment::store::attempts::{self, NewAttempt};
use payment::waiting::Waiting;
use serde_json::{Value, json};
use service_kit::Backoff;
use sqlx::FromRow;
use sqlx::postgres::{PgPool, PgPoolOptions};
use testkit::postgres::template;
use uuid::Uuid;
use wiremock::MockServer;

use crate::stepper::Stepper;

/// Lease of tests that do not wait for it to expire.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) struct Harness {
    pub(crate) url: String,
    pub(crate) pool: PgPool,
    pub(crate) psp: MockServer,
}

#[derive(Debug, FromRow)]
pub(crate) struct Payment {
    pub(crate) status: String,
    pub(crate) tries: i32,
    pub(crate) lease_token: Option<Uuid>,
    pub(crate) last_error: Option<String>,
    pub(crate) charge_id: Option<String>,
    pub(crate) decline_code: Option<String>,
    pub(crate) due_in_s: f64,
}

impl Harness {
    pub(crate) async fn create() -> Self {
        let migrate = |database_url| {
            payment::startup::migrate(Migration {
                database_url,
                demo_data: true,
            })
        };
        let url = template::copy_for_test("payment", migrate).await.unwrap();
        let pool = PgPoolOptions::new()
            .max_connections(4)
            .connect(&url)
            .await
            .unwrap();
        Self {
            url,
            pool,
            psp: MockServer::start().await,
        }
    }

    /// The harness over connections as the service opens them. There are only two (the reconciler needs
    /// both), so that each caches its plans soon. `options` is added to the URL.
    pub(crate) fn with_service_options(self, options: &str) -> Self {
        let settings = service_kit::database::Settings {
            database_url: format!("{}{options}", self.url),
            database_connections_max: 2,
            database_acquire_timeout_ms: 15_000,
            database_statement_timeout_ms: 60_000,
        };
        let pool = service_kit::database::connect_lazy(&settings, "payment").unwrap();
        Self { pool, ..self }
    }

    /// Stores an attempt to pay an order, due now.
    pub(crate) async fn open(&self, order_id: Uuid, attempt: i32) {
        self.try_open(order_id, attempt).await.unwrap();
    }

    pub(crate) async fn try_open(&self, order_id: Uuid, attempt: i32) -> sqlx::Result<()> {
        self.open_for("acme", order_id, attempt).await
    }

    pub(crate) async fn open_for(
        &self,
        principal: &str,
        order_id: Uuid,
        attempt: i32,
    ) -> sqlx::Result<()> {
        let new = self.new_attempt(principal, order_id, attempt);
        let mut connection = self.pool.acquire().await.unwrap();
        attempts::open(&mut connection, &[new], None)
            .await
            .map(drop)
    }

    pub(crate) fn new_attempt(&self, principal: &str, order_id: Uuid, attempt: i32) -> NewAttempt {
        NewAttempt {
            order_id,
            attempt,
            principal: principal.to_owned(),
            amount: 5_000,
            currency: "USD",
            payment_method: "pm_card_ok".to_owned(),
            customer_id: "cust-88".to_owned(),
            lines: json!([{ "sku": "SKU-1", "quantity": 2 }]),
            correlation_id: format!("corr-{order_id}"),
            traceparent: None,
            requested_at: Utc::now(),
        }
    }

    /// Lets everything become due, calls the provider once for each row, and records the answers. Returns
    /// how many rows are settled.
    pub(crate) async fn step(&self) -> usize {
        self.pass_time().await;
        let answers = self.stepper(LONG).call().await;
        self.record(&answers).await.unwrap()
    }

    /// The types of the order's events, in the order of their writing.
    pub(crate) async fn event_types(&self, order: Uuid) -> Vec<String> {
        let events = self.events(order).await;
        events.into_iter().map(|(kind, _)| kind).collect()
    }

    /// Stores the first attempt of a new order.
    pub(crate) async fn open_new(&self) -> Uuid {
        let order_id = Uuid::new_v4();
        self.open(order_id, 1).await;
        order_id
    }

    pub(crate) fn stepper(&self, lease: Duration) -> Stepper {
        self.stepper_at(&self.psp.uri(), lease)
    }

    pub(crate) fn stepper_at(&self, psp_url: &str, lease: Duration) -> Stepper {
        Stepper::new(self.pool.clone(), psp_url, lease)
    }

    pub(crate) fn recorder(&self) -> Recorder {
        Recorder {
            pool: self.pool.clone(),
            backoff: Backoff {
                base: Duration::from_secs(10),
                max: Duration::from_secs(20),
            },
            store_wait_max: recorder::STORE_WAIT_MAX,
            wake: outbox::Wake::default(),
            queues: Arc::new(ChargerQueues::new(LONG)),
            waiting: Waiting::default(),
        }
    }

    pub(crate) async fn record(&self, answers: &[Done<Answered>]) -> anyhow::Result<usize> {
        self.recorder().record(answers).await
    }

    pub(crate) async fn payment(&self, order_id: Uuid, attempt: i32) -> Payment {
        sqlx::query_as(
            "select status, tries, lease_token, last_error, charge_id, decline_code,
                    extract(epoch from due_at - now())::float8 as due_in_s
             from payments where order_id = $1 and attempt = $2",
        )
        .bind(order_id)
        .bind(attempt)
        .fetch_one(&self.pool)
        .await
        .unwrap()
    }

    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        let count = sqlx::query_scalar(sql).fetch_one(&self.pool);
        count.await.unwrap()
    }

    pub(crate) async fn execute(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&self.pool).await.unwrap();
    }

    /// Makes every lease and backoff expire.
    pub(crate) async fn pass_time(&self) {
        self.execute(
            "update payments set due_at = clock_timestamp() where status in ('pending', 'unknown')",
        )
        .await;
        self.execute("update refunds set due_at = clock_timestamp() where status <> 'refunded'")
            .await;
    }

    /// Type and payload of the order's events, oldest first.
    pub(crate) async fn events(&self, order_id: Uuid) -> Vec<(String, Value)> {
        sqlx::query_as(
            "select event_type, payload::jsonb from outbox where subject = $1 order by id",
        )
        .bind(order_id)
        .fetch_all(&self.pool)
        .await
        .unwrap()
    }
}

pub(crate) use testkit::eventually;
