//! A client of the order API. `send`, `cancel` and `pay_again` make one request; `place` retries.
//!
//! The caller keeps the idempotency keys in memory, so a retry does not survive a restart of the
//! caller.

mod response;

use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use tokio::time::Instant;
use uuid::Uuid;

pub use response::ApiResponse;

/// Long enough for a request that waits for a database connection, short enough to notice a hang.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// With the back-off below, one `place` gives up after about 20 seconds.
const PLACE_TRIES_MAX: u32 = 12;
const RETRY_BACKOFF_MIN: Duration = Duration::from_millis(50);
const RETRY_BACKOFF_MAX: Duration = Duration::from_secs(3);
const STATUS_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Calls one order service with one API key.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    order_url: String,
    api_key: String,
}

/// The fields of `GET /orders/{id}` that callers use.
#[derive(Debug, Clone, Deserialize)]
pub struct Order {
    pub order_id: Uuid,
    pub status: String,
    #[serde(default)]
    pub version: i32,
}

/// An HTTP client that ignores the machine's proxy settings: a proxy cannot resolve the names of a
/// local system.
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

    /// The same service with another tenant's API key.
    pub fn with_api_key(&self, api_key: &str) -> Self {
        Self {
            api_key: api_key.to_owned(),
            ..self.clone()
        }
    }

    pub fn order_url(&self) -> &str {
        &self.order_url
    }

    /// Sends the order exactly once. Without a `key` the service must reject it.
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

    /// Requests the cancellation of the order, once.
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

    /// Sends the order under one key until the response is final or no try is left.
    /// A lost response, 5xx, 429 and 409 with Retry-After leave the outcome unknown, so the same key
    /// is sent again.
    pub async fn place(&self, key: &str, body: &str) -> anyhow::Result<ApiResponse> {
        let mut backoff = RETRY_BACKOFF_MIN;
        let mut last = String::new();
        for _ in 0..PLACE_TRIES_MAX {
            let wait = match self.send(Some(key), body).await {
                Ok(response) if !response.is_retryable() => return Ok(response),
                Ok(response) => {
                    last = response.summary();
                    let wait = response.retry_after.unwrap_or(backoff);
                    wait.min(RETRY_BACKOFF_MAX)
                }
                Err(error) => {
                    last = format!("{error:#}");
                    backoff
                }
            };
            tokio::time::sleep(wait).await;
            backoff = (backoff * 2).min(RETRY_BACKOFF_MAX);
        }
        bail!("no final response for key {key} after {PLACE_TRIES_MAX} tries, last: {last}")
    }

    pub async fn order(&self, id: Uuid) -> anyhow::Result<Order> {
        let response = self
            .http
            .get(format!("{}/orders/{id}", self.order_url))
            .bearer_auth(&self.api_key)
            .send()
            .await
            .with_context(|| format!("GET /orders/{id}"))?;
        let response = ApiResponse::read(response).await?;
        if response.status != 200 {
            bail!("GET /orders/{id} returned {}", response.summary());
        }
        serde_json::from_str(&response.body)
            .with_context(|| format!("reading the order {}", response.body))
    }

    /// Polls until the order has the status. An unreachable service counts as "not yet".
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
                    "order {id} is {} instead of {status} after {} s",
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

/// The body of an order with one line of goods. Another quantity makes a different request.
pub fn order_body(quantity: u32) -> String {
    format!(
        r#"{{"customer_id":"cust-88","currency":"USD","items":[{{"sku":"SKU-99","quantity":{quantity},"unit_price":2500}}],"payment_method":"pm_card_ok"}}"#
    )
}

/// A fresh idempotency key. Use one per intent, and keep it for every retry.
pub fn new_key(purpose: &str) -> String {
    format!("{purpose}-{}", Uuid::new_v4())
}
