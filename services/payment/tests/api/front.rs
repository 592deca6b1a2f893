//! The API over a harness with nobody charging behind it, so that what comes after the commit can be
//! stepped; and its callers, who can also be those of a whole service.

use std::sync::Arc;
use std::time::Duration;

use api_keys::Authenticator;
use payment::direct::{DirectCharges, POLL_DEFAULT};
use payment::routes::{self, Services};
use payment::waiting::Waiting;
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use service_kit::http;
use sqlx::PgPool;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use crate::harness::Harness;
use crate::reconciling::reconciler;

pub(crate) const ACME: &str = "demo-key-acme";
pub(crate) const GLOBEX: &str = "demo-key-globex";
pub(crate) const KEY: &str = "idempotency-key";
/// No test lets a caller wait so long; whoever does was forgotten.
const PATIENCE: Duration = Duration::from_secs(30);
const NEVER: Duration = Duration::from_secs(3_600);
const KEY_WINDOW_SECONDS: u64 = 3_600;

pub(crate) struct Front {
    pub(crate) caller: Caller,
    pub(crate) waiting: Waiting,
    _stop: DropGuard,
}

/// Whoever asks for charges at this port.
#[derive(Clone)]
pub(crate) struct Caller {
    port: u16,
    client: reqwest::Client,
}

impl Front {
    /// Its callers wait this long.
    pub(crate) async fn open(harness: &Harness, wait: Duration) -> Self {
        Self::open_over(harness, harness.pool.clone(), wait, POLL_DEFAULT).await
    }

    /// Its callers wait until they are woken.
    pub(crate) async fn open_without_poll(harness: &Harness) -> Self {
        Self::open_over(harness, harness.pool.clone(), NEVER, NEVER).await
    }

    pub(crate) async fn open_over(
        harness: &Harness,
        pool: PgPool,
        wait: Duration,
        poll: Duration,
    ) -> Self {
        let (waiting, shutdown) = (Waiting::default(), CancellationToken::new());
        let services = Services {
            pool: pool.clone(),
            reconciler: reconciler(harness, Duration::ZERO),
            authenticator: Authenticator::new(pool.clone()),
            direct_charges: DirectCharges {
                pool: pool.clone(),
                due: Arc::new(Notify::new()),
                waiting: waiting.clone(),
                key_window_seconds: KEY_WINDOW_SECONDS,
                wait,
                poll,
                closing: CancellationToken::new(),
            },
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let caller = Caller::of(listener.local_addr().unwrap().port());
        let router = http::finish(routes::table(services), pool);
        tokio::spawn(http::serve(listener, router, shutdown.clone()));
        Self {
            caller,
            waiting,
            _stop: shutdown.drop_guard(),
        }
    }
}

impl Caller {
    pub(crate) fn of(port: u16) -> Self {
        let client = reqwest::Client::builder().timeout(PATIENCE);
        let client = client.build().unwrap();
        Self { port, client }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        self.client.request(method, url)
    }

    pub(crate) async fn post(&self, key: &str, body: &Value) -> Answer {
        self.post_as(ACME, key, body).await
    }

    pub(crate) async fn post_as(&self, api_key: &str, key: &str, body: &Value) -> Answer {
        let request = self.request(Method::POST, "/payments");
        send(request.bearer_auth(api_key).header(KEY, key).json(body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        send(self.request(Method::GET, path).bearer_auth(ACME)).await
    }

    pub(crate) async fn payment(&self, id: Uuid) -> Value {
        let shown = self.get(&format!("/payments/{id}")).await;
        shown.expect(200).json()
    }
}

pub(crate) async fn send(request: RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    Answer {
        status: response.status().as_u16(),
        headers: response.headers().clone(),
        body: response.bytes().await.unwrap().to_vec(),
    }
}

/// 50 dollars, on the card that every call of these tests is expected to name.
pub(crate) fn charge() -> Value {
    json!({"amount": 5_000, "currency": "USD", "payment_method": "pm_card_ok"})
}

/// [`charge`] with one member set.
pub(crate) fn charge_with(member: &str, value: impl Into<Value>) -> Value {
    let mut charge = charge();
    charge[member] = value.into();
    charge
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{}: {text}", self.status))
    }

    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> &Self {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
        self
    }

    #[track_caller]
    pub(crate) fn payment_id(&self) -> Uuid {
        let body = self.json();
        let id = body["payment_id"].as_str();
        let id = id.unwrap_or_else(|| panic!("no payment in {body}"));
        id.parse().unwrap()
    }

    /// Asserts that this is a problem, worth another try exactly if it says when.
    #[track_caller]
    pub(crate) fn expect_problem(&self, status: u16, code: &str) -> Value {
        self.expect(status);
        let content_type = Some("application/problem+json");
        assert_eq!(self.header("content-type"), content_type);
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status);
        let has_id = problem["correlation_id"].as_str();
        assert!(has_id.is_some_and(|id| !id.is_empty()), "{problem}");
        let retryable = self.header("retry-after").is_some();
        assert_eq!(problem["retryable"], retryable, "{problem}");
        problem
    }

    /// Asserts that the outcome is still to come, and that the answer says where.
    #[track_caller]
    pub(crate) fn expect_in_flight(&self, code: &str, payment_id: Uuid) {
        let problem = self.expect_problem(409, code);
        assert_eq!(self.header("retry-after"), Some("1"));
        assert_eq!(problem["payment_id"], payment_id.to_string());
        assert_eq!(problem["payment_url"], format!("/payments/{payment_id}"));
        assert!(!self.is_replay());
    }
}
