//! A provider on a free port with a new database, and a client for it.

use clap::Parser as _;
use endpoints::operator::OperatorClient;
use psp::config::{Command, Migration, Program};
use psp::startup::{Application, migrate};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgPool, PgPoolOptions};
use testkit::operator;
use testkit::postgres::template;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api_response::ApiResponse;

pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) port: u16,
    pub(crate) operator_url: String,
    pub(crate) operator: OperatorClient,
    pub(crate) books: PgPool,
    pub(crate) http: reqwest::Client,
    database_url: String,
    shutdown: CancellationToken,
    running: JoinHandle<anyhow::Result<()>>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a provider with these command-line flags.
    pub(crate) async fn start_with(flags: &[&str]) -> Self {
        let migrate = |database_url| migrate(Migration { database_url });
        let database_url = template::copy_for_test("psp", migrate).await.unwrap();
        Self::on(database_url, flags).await
    }

    /// Starts another provider on the same books. It does not know the keys that the first has in
    /// flight.
    pub(crate) async fn start_second(&self) -> Self {
        Self::on(self.database_url.clone(), &[]).await
    }

    async fn on(database_url: String, flags: &[&str]) -> Self {
        let operators = operator::setting();
        let fixed = [
            "psp",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--operator-listen",
            "127.0.0.1:0",
            "--operator-tokens",
            &operators,
            "--database-url",
            &database_url,
        ];
        let program = Program::parse_from(fixed.iter().chain(flags));
        let Command::Serve(config) = program.command else {
            unreachable!("the flags say serve")
        };
        let application = Application::build(config).await.unwrap();
        let port = application.port();
        let operator_port = application.operator_port().unwrap();
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(application.run_until(shutdown.clone()));
        let books = PgPoolOptions::new()
            .max_connections(2)
            .connect(&database_url)
            .await
            .unwrap();
        Self {
            url: format!("http://127.0.0.1:{port}"),
            port,
            operator_url: format!("http://127.0.0.1:{operator_port}"),
            operator: operator::client().unwrap(),
            books,
            http: reqwest::Client::new(),
            database_url,
            shutdown,
            running,
        }
    }

    /// Stops the provider and waits for its workers. Its books stay.
    pub(crate) async fn stop(&mut self) {
        self.shutdown.cancel();
        (&mut self.running).await.unwrap().unwrap();
    }

    pub(crate) async fn charge(&self, key: &str, body: &Value) -> ApiResponse {
        self.try_charge(key, body).await.unwrap()
    }

    pub(crate) async fn try_charge(&self, key: &str, body: &Value) -> reqwest::Result<ApiResponse> {
        self.try_post("/v1/charges", key, body).await
    }

    pub(crate) async fn refund(&self, key: &str, body: &Value) -> ApiResponse {
        self.try_refund(key, body).await.unwrap()
    }

    pub(crate) async fn try_refund(&self, key: &str, body: &Value) -> reqwest::Result<ApiResponse> {
        self.try_post("/v1/refunds", key, body).await
    }

    async fn try_post(&self, path: &str, key: &str, body: &Value) -> reqwest::Result<ApiResponse> {
        let request = self.http.post(format!("{}{path}", self.url));
        let response = request
            .header("idempotency-key", key)
            .json(body)
            .send()
            .await?;
        ApiResponse::read(response).await
    }

    /// Cancels the key, so that it never charges.
    pub(crate) async fn cancel(&self, key: &str) -> ApiResponse {
        self.try_cancel(key).await.unwrap()
    }

    pub(crate) async fn try_cancel(&self, key: &str) -> reqwest::Result<ApiResponse> {
        let request = self.http.post(format!("{}/v1/cancellations", self.url));
        let body = json!({"key": key, "reference": "o-1"});
        ApiResponse::read(request.json(&body).send().await?).await
    }

    /// Sends a charge, and hangs up as soon as the one armed fault was applied to it.
    pub(crate) async fn abandon(&self, key: &str, body: &Value) {
        tokio::select! {
            response = self.try_charge(key, body) => panic!("response came too early: {response:?}"),
            () = eventually("the fault applies", async || self.applied().await == [1]) => {}
        }
    }

    /// Sends a request of a merchant, or of an operator if the path is under `/admin`.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> ApiResponse {
        let mut request = match path.starts_with("/admin/") {
            true => {
                let url = format!("{}{path}", self.operator_url);
                self.operator.request(method, &url)
            }
            false => self.http.request(method, format!("{}{path}", self.url)),
        };
        if let Some(body) = body {
            request = request.json(&body);
        }
        ApiResponse::read(request.send().await.unwrap())
            .await
            .unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let response = self.call(Method::GET, path, None).await;
        assert_eq!(response.status, 200, "{response:?}");
        response.json()
    }

    pub(crate) async fn arm(&self, fault: Value) -> u64 {
        let response = self.call(Method::POST, "/admin/faults", Some(fault)).await;
        assert_eq!(response.status, 201, "{response:?}");
        response.json()["id"].as_u64().unwrap()
    }

    /// How many times each fault was applied, in the order in which they were armed.
    pub(crate) async fn applied(&self) -> Vec<u64> {
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

    /// Keys that have a stored response.
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
    /// The database is removed with the cluster of the test run.
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

/// The request that refunds a whole charge.
pub(crate) fn refund_of(charge: &Value) -> Value {
    json!({
        "charge_id": charge["id"],
        "amount": charge["amount"],
        "reference": charge["reference"],
    })
}

pub(crate) use testkit::eventually;
