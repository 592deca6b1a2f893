//! A provider on a free port with a fresh database, and a caller for it.

use clap::Parser as _;
use psp::config::{Command, Migration, Program};
use psp::startup::{Application, migrate};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgPool, PgPoolOptions};
use testkit::postgres::database;
use tokio_util::sync::CancellationToken;

use crate::answer::Answer;

pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) port: u16,
    pub(crate) books: PgPool,
    pub(crate) http: reqwest::Client,
    database_url: String,
    shutdown: CancellationToken,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// With flags as on the command line.
    pub(crate) async fn start_with(flags: &[&str]) -> Self {
        let database_url = database::create_for_test("psp").await.unwrap();
        let migration = Migration {
            database_url: database_url.clone(),
        };
        migrate(migration).await.unwrap();
        Self::on(database_url, flags).await
    }

    /// Another provider over the same books, which knows nothing of what the first has in flight.
    pub(crate) async fn start_beside(&self) -> Self {
        Self::on(self.database_url.clone(), &[]).await
    }

    async fn on(database_url: String, flags: &[&str]) -> Self {
        let fixed = [
            "psp",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--database-url",
            &database_url,
        ];
        let program = Program::parse_from(fixed.iter().chain(flags));
        let Command::Serve(config) = program.command else {
            panic!("flags of serve expected")
        };
        let application = Application::build(config).await.unwrap();
        let port = application.port();
        let shutdown = CancellationToken::new();
        tokio::spawn(application.run_until(shutdown.clone()));
        let books = PgPoolOptions::new()
            .max_connections(2)
            .connect(&database_url)
            .await
            .unwrap();
        Self {
            url: format!("http://127.0.0.1:{port}"),
            port,
            books,
            http: reqwest::Client::new(),
            database_url,
            shutdown,
        }
    }

    pub(crate) async fn charge(&self, key: &str, body: &Value) -> Answer {
        self.try_charge(key, body).await.unwrap()
    }

    pub(crate) async fn try_charge(&self, key: &str, body: &Value) -> reqwest::Result<Answer> {
        self.try_post("/v1/charges", key, body).await
    }

    pub(crate) async fn refund(&self, key: &str, body: &Value) -> Answer {
        self.try_refund(key, body).await.unwrap()
    }

    pub(crate) async fn try_refund(&self, key: &str, body: &Value) -> reqwest::Result<Answer> {
        self.try_post("/v1/refunds", key, body).await
    }

    async fn try_post(&self, path: &str, key: &str, body: &Value) -> reqwest::Result<Answer> {
        let request = self.http.post(format!("{}{path}", self.url));
        let response = request
            .header("idempotency-key", key)
            .json(body)
            .send()
            .await?;
        Answer::read(response).await
    }

    /// Asks that the key shall never charge.
    pub(crate) async fn cancel(&self, key: &str) -> Answer {
        self.try_cancel(key).await.unwrap()
    }

    pub(crate) async fn try_cancel(&self, key: &str) -> reqwest::Result<Answer> {
        let request = self.http.post(format!("{}/v1/cancellations", self.url));
        let body = json!({"key": key, "reference": "o-1"});
        Answer::read(request.json(&body).send().await?).await
    }

    /// Sends a charge, and hangs up as soon as the one fault on the board has struck it.
    pub(crate) async fn abandon(&self, key: &str, body: &Value) {
        tokio::select! {
            answer = self.try_charge(key, body) => panic!("answered too soon: {answer:?}"),
            () = eventually("the fault strikes", async || self.fired().await == [1]) => {}
        }
    }

    pub(crate) async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        let mut request = self.http.request(method, format!("{}{path}", self.url));
        if let Some(body) = body {
            request = request.json(&body);
        }
        Answer::read(request.send().await.unwrap()).await.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let answer = self.call(Method::GET, path, None).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    pub(crate) async fn add_fault(&self, fault: Value) -> u64 {
        let answer = self.call(Method::POST, "/admin/faults", Some(fault)).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.json()["id"].as_u64().unwrap()
    }

    /// How often each fault has struck, in the order of their making.
    pub(crate) async fn fired(&self) -> Vec<u64> {
        let list = self.get("/admin/faults").await;
        let faults = list["data"].as_array().unwrap();
        faults
            .iter()
            .map(|fault| fault["fired"].as_u64().unwrap())
            .collect()
    }

    /// Physical charges, in the provider's own books.
    pub(crate) async fn charged(&self) -> i64 {
        self.count("charges").await
    }

    /// Refunds, in the provider's own books.
    pub(crate) async fn refunded(&self) -> i64 {
        self.count("refunds").await
    }

    /// Keys that have an answer.
    pub(crate) async fn stored(&self) -> i64 {
        self.count("requests").await
    }

    async fn count(&self, table: &'static str) -> i64 {
        let sql = AssertSqlSafe(format!("select count(*) from {table}"));
        sqlx::query_scalar(sql)
            .fetch_one(&self.books)
            .await
            .unwrap()
    }
}

impl Drop for Server {
    /// The database goes with the cluster that was made for the test run.
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// The request for a charge that succeeds.
pub(crate) fn order(reference: &str) -> Value {
    paid_with(reference, "pm_card_ok")
}

pub(crate) fn paid_with(reference: &str, payment_method: &str) -> Value {
    json!({
        "reference": reference,
        "amount": 5000,
        "currency": "USD",
        "payment_method": payment_method,
    })
}

/// The request that gives all of a charge back.
pub(crate) fn giving_back(charge: &Value) -> Value {
    json!({
        "charge_id": charge["id"],
        "amount": charge["amount"],
        "reference": charge["reference"],
    })
}

pub(crate) use testkit::eventually;
