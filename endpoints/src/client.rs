//! The order client that verify, demo and load share: one request per call where the caller wants
//! to see every answer, and one patient `place` that behaves as a well-mannered customer's code does.
//! It keeps its keys in memory only; a client that survives its own death is another matter.

mod response;

use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use tokio::time::Instant;
use uuid::Uuid;

pub use response::ApiResponse;

/// Long enough for an intake that waits behind a full connection pool, short enough to notice a hang.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// One request and its retries: with the back-off below, about 20 seconds.
const PLACE_TRIES_MAX: u32 = 12;
const RETRY_BACKOFF_MIN: Duration = Duration::from_millis(50);
const RETRY_BACKOFF_MAX: Duration = Duration::from_secs(3);
const STATUS_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Speaks to one order service in the name of one API key.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    order_url: String,
    api_key: String,
}

/// What `GET /orders/{id}` says, as far as the lab looks.
#[derive(Debug, Clone, Deserialize)]
pub struct Order {
    pub order_id: Uuid,
    pub status: String,
    #[serde(default)]
    pub version: i32,
}

/// Talks to the system without a detour: a proxy of the machine's would not know its names.
pub fn http(timeout: Duration) -> anyhow::Result<reqwest::Client> {
    reqwest::Client::builder()
        .timeout(timeout)
        .no_proxy()
        .build()
        .context("building the HTTP client")
}

impl Client {
    pub fn new(order_url: &str, api_key: &str) -> anyhow::Result<Self> {
        let http = http(REQUEST_TIMEOUT)?;
        Ok(Self {
            http,
            order_url: order_url.trim_end_matches('/').to_owned(),
            api_key: api_key.to_owned(),
        })
    }

    /// The same service, seen by another tenant.
    pub fn with_api_key(&self, api_key: &str) -> Self {
        Self {
            api_key: api_key.to_owned(),
            ..self.clone()
        }
    }

    pub fn order_url(&self) -> &str {
        &self.order_url
    }

    /// Sends the order exactly once. `key` is `None` only to see the refusal.
    pub async fn send(&self, key: Option<&str>, body: &str) -> anyhow::Result<ApiResponse> {
        let mut request = self
            .http
            .post(format!("{}/orders", self.order_url))
            .bearer_auth(&self.api_key)
            .header("content-type", "application/json")
            .body(body.to_owned());
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let response = request.send().await.context("POST /orders")?;
        ApiResponse::read(response).await
    }

    /// Asks for the order to be cancelled, once.
    pub async fn cancel(&self, id: Uuid) -> anyhow::Result<ApiResponse> {
        let request = self.http.delete(format!("{}/orders/{id}", self.order_url));
        let response = request.bearer_auth(&self.api_key).send().await;
        ApiResponse::read(response.context("DELETE /orders/{id}")?).await
    }

    /// Pays a declined order with another method, once.
    pub async fn pay_again(
        &self,
        id: Uuid,
        key: &str,
        method: &str,
    ) -> anyhow::Result<ApiResponse> {
        let url = format!("{}/orders/{id}/payments", self.order_url);
        let request = self.http.post(url).bearer_auth(&self.api_key);
        let response = request
            .header("idempotency-key", key)
            .json(&serde_json::json!({ "payment_method": method }))
            .send()
            .await;
        ApiResponse::read(response.context("POST /orders/{id}/payments")?).await
    }

    /// Sends the order under one key until the answer is final, or the tries are used up.
    /// No answer at all, 5xx, 429 and 409-in-flight all mean "unknown", so the same key goes again.
    pub async fn place(&self, key: &str, body: &str) -> anyhow::Result<ApiResponse> {
        let mut backoff = RETRY_BACKOFF_MIN;
        let mut last = String::new();
        for _ in 0..PLACE_TRIES_MAX {
            let wait = match self.send(Some(key), body).await {
                Ok(answer) if !answer.is_retryable() => return Ok(answer),
                Ok(answer) => {
                    last = answer.summary();
                    answer.retry_after.unwrap_or(backoff).min(RETRY_BACKOFF_MAX)
                }
                Err(error) => {
                    last = format!("{error:#}");
                    backoff
                }
            };
            tokio::time::sleep(wait).await;
            backoff = (backoff * 2).min(RETRY_BACKOFF_MAX);
        }
        bail!("no final answer for key {key} after {PLACE_TRIES_MAX} tries, last: {last}")
    }

    pub async fn order(&self, id: Uuid) -> anyhow::Result<Order> {
        let response = self
            .http
            .get(format!("{}/orders/{id}", self.order_url))
            .bearer_auth(&self.api_key)
            .send()
            .await
            .with_context(|| format!("GET /orders/{id}"))?;
        let answer = ApiResponse::read(response).await?;
        if answer.status != 200 {
            bail!("GET /orders/{id} answered {}", answer.summary());
        }
        serde_json::from_str(&answer.body)
            .with_context(|| format!("reading the order {}", answer.body))
    }

    /// Polls until the order has the status. A service that is down for a moment is waited for as well.
    pub async fn wait_for_status(
        &self,
        id: Uuid,
        status: &str,
        limit: Duration,
    ) -> anyhow::Result<Order> {
        let deadline = Instant::now() + limit;
        loop {
            let seen = self.order(id).await;
            match &seen {
                Ok(order) if order.status == status => return seen,
                _ if Instant::now() < deadline => tokio::time::sleep(STATUS_POLL_INTERVAL).await,
                Ok(order) => bail!(
                    "order {id} is {} and not {status} after {} s",
                    order.status,
                    limit.as_secs()
                ),
                Err(_) => {
                    return seen.with_context(|| format!("waiting for order {id} to be {status}"));
                }
            }
        }
    }
}

/// An order of one line of goods; another quantity is another request.
pub fn order_body(quantity: u32) -> String {
    format!(
        r#"{{"customer_id":"cust-88","currency":"USD","items":[{{"sku":"SKU-99","quantity":{quantity},"unit_price":2500}}],"payment_method":"pm_card_ok"}}"#
    )
}

/// A key nobody has used: one per intent, kept over every retry of it.
pub fn new_key(purpose: &str) -> String {
    format!("{purpose}-{}", Uuid::new_v4())
}
