//! A receipt database, a mail server, and the parts of the service, which tests step.

use std::time::Duration;

use chrono::Utc;
use leases::{Done, Record as _};
use money::Money;
use receipt::config::Migration;
use receipt::domain::{MailType, Status};
use receipt::recorder::{self, Recorder};
use receipt::sender::Tried;
use receipt::store::receipts::{self, NewMail};
use serde_json::json;
use service_kit::Backoff;
use sqlx::FromRow;
use sqlx::postgres::{PgPool, PgPoolOptions};
use tempfile::TempDir;
use testkit::postgres::template;
use testkit::smtp_sink::{self, Action, Behaviour, Mail, behaviour};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::stepper::Stepper;

/// Longest wait for an expected result.
pub(crate) const EVENTUALLY: Duration = testkit::polling::WAIT_MAX;
const POLL: Duration = Duration::from_millis(20);
/// Lease of tests that do not wait for it to expire.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) struct Harness {
    pub(crate) url: String,
    pub(crate) pool: PgPool,
    pub(crate) smtp_port: u16,
    mails: TempDir,
    sink: Sink,
}

type Sink = AbortOnDropHandle<anyhow::Result<()>>;

#[derive(Debug, FromRow)]
pub(crate) struct Row {
    pub(crate) status: String,
    pub(crate) tries: i32,
    pub(crate) tries_in_doubt: i32,
    pub(crate) lease_token: Option<Uuid>,
    pub(crate) last_error: Option<String>,
    pub(crate) due_in_s: f64,
}

impl Row {
    /// Status, tries, and tries in doubt.
    pub(crate) fn state(&self) -> (&str, i32, i32) {
        (&self.status, self.tries, self.tries_in_doubt)
    }
}

impl Harness {
    pub(crate) async fn create() -> Self {
        let migrate = |database_url| receipt::startup::migrate(Migration { database_url });
        let url = template::copy_for_test("receipt", migrate).await.unwrap();
        let pool = PgPoolOptions::new()
            .max_connections(4)
            .connect(&url)
            .await
            .unwrap();
        let mails = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let smtp_port = listener.local_addr().unwrap().port();
        Self {
            url,
            pool,
            smtp_port,
            sink: sink(listener, &mails),
            mails,
        }
    }

    /// Logs a receipt as the consumer does, due now. The order id serves as the event id.
    pub(crate) async fn log(&self, order_id: Uuid) {
        self.log_for(order_id, "cust-88@customers.example").await;
    }

    pub(crate) async fn log_for(&self, order_id: Uuid, recipient: &str) {
        let new = Self::new_mail(order_id, recipient);
        let mut connection = self.pool.acquire().await.unwrap();
        receipts::log(&mut connection, &[new], None).await.unwrap();
    }

    pub(crate) fn new_mail(order_id: Uuid, recipient: &str) -> NewMail {
        NewMail {
            event_id: order_id,
            mail_type: MailType::Receipt,
            event_time: Utc::now(),
            status: Status::Pending,
            order_id,
            attempt: 1,
            recipient: recipient.to_owned(),
            amount: Some(Money::new(5_000, "USD".parse().unwrap()).unwrap()),
            lines: json!([{ "sku": "SKU-1", "quantity": 2 }]),
            reason: None,
            correlation_id: format!("corr-{order_id}"),
            traceparent: None,
        }
    }

    pub(crate) async fn log_new(&self) -> Uuid {
        let order_id = Uuid::new_v4();
        self.log(order_id).await;
        order_id
    }

    pub(crate) fn stepper(&self, lease: Duration) -> Stepper {
        Stepper::new(self, self.smtp_port, lease)
    }

    pub(crate) fn recorder(&self) -> Recorder {
        Recorder {
            pool: self.pool.clone(),
            backoff: Backoff {
                base: Duration::from_secs(10),
                max: Duration::from_secs(20),
            },
            store_wait_max: recorder::STORE_WAIT_MAX,
        }
    }

    pub(crate) async fn record(&self, tried: &[Done<Tried>]) -> usize {
        self.recorder().record(tried).await.unwrap()
    }

    /// Tries every due mail once: dialogue and record. Returns the number of mails.
    pub(crate) async fn try_once(&self) -> usize {
        let tried = self.stepper(LONG).send().await;
        assert_eq!(self.record(&tried).await, tried.len());
        tried.len()
    }

    /// Makes the mail server misbehave this many times. Then it works again.
    pub(crate) fn misbehave(&self, action: Action, times: u32) {
        behaviour::set(self.mails.path(), Behaviour { action, times }).unwrap();
    }

    /// Restarts the mail server, which closes every connection to it.
    pub(crate) async fn restart_mail_server(&mut self) {
        self.sink.abort();
        let mut listener = TcpListener::bind(("127.0.0.1", self.smtp_port)).await;
        while listener.is_err() {
            tokio::time::sleep(POLL).await;
            listener = TcpListener::bind(("127.0.0.1", self.smtp_port)).await;
        }
        self.sink = sink(listener.unwrap(), &self.mails);
    }

    pub(crate) fn mails(&self) -> Vec<Mail> {
        smtp_sink::mails(self.mails.path()).unwrap()
    }

    pub(crate) async fn row(&self, order_id: Uuid) -> Row {
        sqlx::query_as(
            "select status, tries, tries_in_doubt, lease_token, last_error,
                    extract(epoch from due_at - now())::float8 as due_in_s
             from receipts where order_id = $1",
        )
        .bind(order_id)
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
        self.execute("update receipts set due_at = now() where status = 'pending'")
            .await;
    }

    pub(crate) async fn sent(&self, count: i64) {
        eventually("all mails are sent", async || {
            self.count("select count(*) from receipts where status = 'sent'")
                .await
                >= count
        })
        .await;
    }
}

fn sink(listener: TcpListener, mails: &TempDir) -> Sink {
    let serve = smtp_sink::serve(listener, mails.path().to_owned());
    AbortOnDropHandle::new(tokio::spawn(serve))
}

pub(crate) use testkit::eventually;
