//! One response of a service, and what a client may conclude from it.

use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;
use uuid::Uuid;

use super::Order;

/// One response. The body is kept byte for byte, because a replay must repeat exactly these bytes.
#[derive(Debug, Clone)]
pub struct ApiResponse {
    pub status: u16,
    pub content_type: String,
    pub replayed: bool,
    pub retry_after: Option<Duration>,
    pub body: String,
}

#[derive(Deserialize)]
struct Problem {
    code: Option<String>,
    retryable: Option<bool>,
}

impl ApiResponse {
    pub async fn read(response: reqwest::Response) -> anyhow::Result<Self> {
        let header = |name: &str| {
            response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned()
        };
        Ok(Self {
            status: response.status().as_u16(),
            content_type: header("content-type"),
            replayed: header("idempotent-replayed") == "true",
            retry_after: header("retry-after").parse().ok().map(Duration::from_secs),
            body: response.text().await.context("reading the response body")?,
        })
    }

    pub fn is_accepted(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether the same key must be sent again.
    pub fn is_retryable(&self) -> bool {
        // A 409 may also be a definite conflict, such as a reused merchant reference. Only a 409
        // with Retry-After means that the key is in flight.
        self.status >= 500 || (matches!(self.status, 409 | 429) && self.retry_after.is_some())
    }

    pub fn order_id(&self) -> anyhow::Result<Uuid> {
        let order: Order = serde_json::from_str(&self.body)
            .with_context(|| format!("no order in the response {}", self.summary()))?;
        Ok(order.order_id)
    }

    /// The `code` and `retryable` of a problem document, if the response is one.
    pub fn problem(&self) -> Option<(String, bool)> {
        if !self.content_type.starts_with("application/problem+json") {
            return None;
        }
        let problem: Problem = serde_json::from_str(&self.body).ok()?;
        Some((problem.code?, problem.retryable?))
    }

    /// One line to print: `422 key_reused`, `201 replayed`.
    pub fn summary(&self) -> String {
        let replayed = if self.replayed { " replayed" } else { "" };
        match self.problem() {
            Some((code, _)) => format!("{} {code}", self.status),
            None => format!("{}{replayed}", self.status),
        }
    }
}
