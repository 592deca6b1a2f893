//! A provider on a free port with a fresh database, and a caller for it.

use std::time::{Duration, Instant};

use clap::Parser as _;
use psp::config::Program;
use psp::startup::Application;
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::answer::Answer;

/// Longest wait for something that must come true.
const EVENTUALLY: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);

pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) port: u16,
    pub(crate) books: PgPool,
    pub(crate) http: reqwest::Client,
    database: String,
    shutdown: CancellationToken,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// With flags as on the command line.
    pub(crate) async fn start_with(flags: &[&str]) -> Self {
        let database = format!("psp_test_{}", Uuid::new_v4().simple());
        let admin = admin_url();
        execute(&admin, format!("create database {database}")).await;
        let options: PgConnectOptions = admin.parse().unwrap();
        let database_url = options.database(&database).to_url_lossy().to_string();
        service_kit::migration::run(&database_url, vec![psp::store::migrator()])
            .await
            .unwrap();
        let fixed = [
            "psp",
            "--listen",
            "127.0.0.1:0",
            "--database-url",
            &database_url,
        ];
        let program = Program::parse_from(fixed.iter().chain(flags));
        let application = Application::build(program.settings).await.unwrap();
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
            database,
            shutdown,
        }
    }

    pub(crate) async fn charge(&self, key: &str, body: &Value) -> Answer {
        self.try_charge(key, body).await.unwrap()
    }

    pub(crate) async fn try_charge(&self, key: &str, body: &Value) -> reqwest::Result<Answer> {
        let request = self.http.post(format!("{}/v1/charges", self.url));
        let response = request
            .header("idempotency-key", key)
            .json(body)
            .send()
            .await?;
        Answer::read(response).await
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
    /// Best effort; a database left over by a crashed test is thrown away with its cluster.
    fn drop(&mut self) {
        self.shutdown.cancel();
        let sql = format!("drop database if exists {} with (force)", self.database);
        let cleanup = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(execute(&admin_url(), sql));
        });
        let _ = cleanup.join();
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

/// Polls until the condition holds.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + EVENTUALLY;
    while !holds().await {
        assert!(Instant::now() < deadline, "never came true: {what}");
        tokio::time::sleep(POLL).await;
    }
}

fn admin_url() -> String {
    std::env::var("TEST_DATABASE_URL").expect("run scripts/test.sh, or: lab infra -- cargo test")
}

async fn execute(url: &str, sql: String) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::query(AssertSqlSafe(sql))
        .execute(&mut connection)
        .await
        .unwrap();
}
