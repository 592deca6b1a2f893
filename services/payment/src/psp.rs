//! Calls to the payment provider.

mod books;

use std::time::Duration;

use anyhow::Context as _;
use reqwest::{RequestBuilder, Url};
use serde_json::json;
use service_kit::retry_after;
use telemetry::http::{CORRELATION_ID, TRACEPARENT};

use crate::domain::answer::{self, Reply};
use crate::domain::{Answer, Errand};
use crate::store::lease::Leased;

pub use books::Page;

/// Most idle connections kept open to the provider.
const IDLE_CONNECTIONS_MAX: usize = 256;

#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    charges_url: Url,
    cancellations_url: Url,
    refunds_url: Url,
    ledger_url: Url,
}

impl Client {
    pub fn new(base_url: &str, timeout: Duration) -> anyhow::Result<Self> {
        let base: Url = base_url.parse().context("PSP_URL is not a URL")?;
        let http = reqwest::Client::builder()
            .timeout(timeout)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            // A provider does not move; following a redirect could send money elsewhere.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .context("building the HTTP client")?;
        let url = |path| base.join(path).context("PSP_URL cannot be a base");
        Ok(Self {
            http,
            charges_url: url("/v1/charges")?,
            cancellations_url: url("/v1/cancellations")?,
            refunds_url: url("/v1/refunds")?,
            ledger_url: url("/v1/ledger")?,
        })
    }

    /// Runs the errand. Never fails: what is not an answer is [`Answer::Unknown`].
    pub async fn run(&self, leased: &Leased, traceparent: Option<&str>) -> Answer {
        let call = Call {
            client: self,
            leased,
            traceparent,
        };
        let answer = match &leased.errand {
            Errand::Charge { payment_method } => call.charge(payment_method).await,
            Errand::LookUp => call.look_up().await,
            Errand::Cancel => call.cancel().await,
            Errand::Refund { charge_id, key } => call.refund(charge_id, key).await,
            Errand::LookUpRefund { key } => call.look_up_refund(key).await,
        };
        answer.unwrap_or_else(|error| Answer::Unknown {
            reason: describe(&error),
            retry_after: None,
        })
    }
}

/// One errand, and on whose behalf it is run.
struct Call<'a> {
    client: &'a Client,
    leased: &'a Leased,
    traceparent: Option<&'a str>,
}

impl Call<'_> {
    async fn charge(&self, payment_method: &str) -> reqwest::Result<Answer> {
        let request = self.post(&self.client.charges_url).json(&json!({
            // The order, so that charges can be found without a key.
            "reference": self.leased.order_id,
            "amount": self.leased.amount,
            "currency": self.leased.currency,
            "payment_method": payment_method,
        }));
        let reply = send(request.header("idempotency-key", self.leased.key())).await?;
        Ok(answer::of_charge(&reply))
    }

    async fn cancel(&self) -> reqwest::Result<Answer> {
        let request = self.post(&self.client.cancellations_url).json(&json!({
            "key": self.leased.key(),
            "reference": self.leased.order_id,
        }));
        Ok(answer::of_cancellation(&send(request).await?))
    }

    async fn refund(&self, charge_id: &str, key: &str) -> reqwest::Result<Answer> {
        let request = self.post(&self.client.refunds_url).json(&json!({
            "charge_id": charge_id,
            "amount": self.leased.amount,
            "reference": self.leased.order_id,
        }));
        let reply = send(request.header("idempotency-key", key)).await?;
        Ok(answer::of_refund(&reply))
    }

    async fn look_up(&self) -> reqwest::Result<Answer> {
        let (key, reference) = (self.leased.key(), self.leased.order_id.to_string());
        let by_key = self.get(&self.client.charges_url, "key", &key);
        let by_reference = self.get(&self.client.charges_url, "reference", &reference);
        let (by_key, by_reference) = (send(by_key).await?, send(by_reference).await?);
        Ok(answer::of_charge_lookup(&key, &by_key, &by_reference))
    }

    async fn look_up_refund(&self, key: &str) -> reqwest::Result<Answer> {
        let by_key = send(self.get(&self.client.refunds_url, "key", key)).await?;
        Ok(answer::of_refund_lookup(key, &by_key))
    }

    fn post(&self, url: &Url) -> RequestBuilder {
        self.with_context(self.client.http.post(url.clone()))
    }

    fn get(&self, url: &Url, name: &str, value: &str) -> RequestBuilder {
        self.with_context(self.client.http.get(url.clone()).query(&[(name, value)]))
    }

    fn with_context(&self, request: RequestBuilder) -> RequestBuilder {
        let request = request.header(CORRELATION_ID, &self.leased.correlation_id);
        match self.traceparent {
            Some(traceparent) => request.header(TRACEPARENT, traceparent),
            None => request,
        }
    }
}

async fn send(request: RequestBuilder) -> reqwest::Result<Reply> {
    let response = request.send().await?;
    Ok(Reply {
        retry_after: retry_after::parse(response.headers()),
        status: response.status().as_u16(),
        body: response.bytes().await?.to_vec(),
    })
}

fn describe(error: &reqwest::Error) -> String {
    let kind = match error {
        _ if error.is_timeout() => "timed out",
        _ if error.is_connect() => "no connection",
        _ => "connection lost",
    };
    kind.to_owned()
}
