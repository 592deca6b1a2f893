//! A client that requests direct charges.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use endpoints::Service;
use endpoints::client::ApiResponse;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{Harness, SETTLE_TIMEOUT};

const RETRY_PAUSE: Duration = Duration::from_millis(250);

#[derive(Clone)]
pub(crate) struct Payer {
    http: reqwest::Client,
    url: String,
}

impl Payer {
    pub(crate) fn of(harness: &Harness) -> anyhow::Result<Self> {
        Self::with_patience(harness, SETTLE_TIMEOUT)
    }

    /// A payer that hangs up after `patience`.
    pub(crate) fn with_patience(harness: &Harness, patience: Duration) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().timeout(patience).build()?;
        let url = harness.system.url(Service::Payment).to_owned();
        Ok(Self { http, url })
    }

    /// The same payer at another replica.
    #[cfg(feature = "long")]
    pub(crate) fn at(&self, url: &str) -> Self {
        let (http, url) = (self.http.clone(), url.to_owned());
        Self { http, url }
    }

    /// Sends the request once.
    pub(crate) async fn send(&self, key: &str, body: &Value) -> anyhow::Result<ApiResponse> {
        let request = self.http.post(format!("{}/payments", self.url));
        let request = request.bearer_auth("demo-key-acme");
        let request = request.header("idempotency-key", key).json(body);
        ApiResponse::read(request.send().await?).await
    }

    /// Retries with the same key until the outcome is known.
    pub(crate) async fn pay(&self, key: &str, body: &Value) -> anyhow::Result<ApiResponse> {
        let deadline = tokio::time::Instant::now() + SETTLE_TIMEOUT;
        loop {
            let last = match self.send(key, body).await {
                Ok(response) if response.status != 202 && !response.is_retryable() => {
                    return Ok(response);
                }
                Ok(response) => response.summary(),
                Err(error) => format!("{error:#}"),
            };
            let late = tokio::time::Instant::now() >= deadline;
            ensure!(!late, "no outcome for key {key}, last: {last}");
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    pub(crate) async fn payment(&self, id: Uuid) -> anyhow::Result<Value> {
        let request = self.http.get(format!("{}/payments/{id}", self.url));
        let response =
            ApiResponse::read(request.bearer_auth("demo-key-acme").send().await?).await?;
        ensure!(response.status == 200, "{}", response.summary());
        Ok(serde_json::from_str(&response.body)?)
    }
}

pub(crate) fn charge(amount: i64) -> Value {
    json!({"amount": amount, "currency": "USD", "payment_method": "pm_card_ok"})
}

pub(crate) fn payment_id(response: &ApiResponse) -> anyhow::Result<Uuid> {
    let body: Value = serde_json::from_str(&response.body)?;
    let id = body["payment_id"].as_str();
    let id = id.with_context(|| format!("no payment in {}", response.body))?;
    Ok(id.parse()?)
}

/// Waits until everything is settled. The ledger must hold one charge for each payment and no other.
pub(crate) async fn expect_charged_once(
    harness: &Harness,
    payments: &[Uuid],
) -> anyhow::Result<()> {
    ensure!(
        !payments.is_empty(),
        "no payment to check: this would prove nothing"
    );
    harness.expect_settled().await?;
    for payment in payments {
        let count = sqlx::query_scalar("select count(*) from charges where reference = $1");
        let charges: i64 = count
            .bind(format!("direct:{payment}"))
            .fetch_one(&harness.databases.psp)
            .await?;
        ensure!(charges == 1, "count(*) = {charges} for {payment}");
    }
    let all: i64 = sqlx::query_scalar("select count(*) from charges")
        .fetch_one(&harness.databases.psp)
        .await?;
    let new = all - harness.charges_before;
    ensure!(new == payments.len() as i64, "{new} charges in total");
    Ok(())
}
