//! Calls to the payment provider.

mod ledger;

use std::time::Duration;

use anyhow::Context as _;
use reqwest::{RequestBuilder, Url};
use serde_json::json;
use service_kit::{crash, retry_after};
use telemetry::http::{CORRELATION_ID, TRACEPARENT};

use crate::domain::provider_answer::{self, Response};
use crate::domain::{Leased, ProviderAnswer, ProviderCall};

pub use ledger::Page;

/// Maximum number of idle connections kept open to the provider.
const IDLE_CONNECTIONS_MAX: usize = 256;

#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    timeout: Duration,
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
            // A redirect could send a charge to another host.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .context("building the HTTP client")?;
        let url = |path| base.join(path).context("PSP_URL cannot be a base");
        Ok(Self {
            http,
            timeout,
            charges_url: url("/v1/charges")?,
            cancellations_url: url("/v1/cancellations")?,
            refunds_url: url("/v1/refunds")?,
            ledger_url: url("/v1/ledger")?,
        })
    }

    /// Makes the call of a leased row. Never fails: without a response the answer is
    /// [`ProviderAnswer::Unknown`].
    pub async fn call(&self, leased: &Leased, traceparent: Option<&str>) -> ProviderAnswer {
        let call = Call {
            client: self,
            leased,
            traceparent,
        };
        let answer = match &leased.call {
            ProviderCall::Charge { payment_method } => call.charge(payment_method).await,
            ProviderCall::LookUpCharge => call.look_up_charge().await,
            ProviderCall::CancelKey => call.cancel_key().await,
            ProviderCall::Refund { charge_id, key } => call.refund(charge_id, key).await,
            ProviderCall::LookUpRefund { key } => call.look_up_refund(key).await,
        };
        answer.unwrap_or_else(|error| ProviderAnswer::Unknown {
            reason: describe(&error),
            retry_after: None,
        })
    }
}

/// One call, with the leased row that needs it.
struct Call<'a> {
    client: &'a Client,
    leased: &'a Leased,
    traceparent: Option<&'a str>,
}

impl Call<'_> {
    async fn charge(&self, payment_method: &str) -> reqwest::Result<ProviderAnswer> {
        let request = self.post(&self.client.charges_url).json(&json!({
            // The order, so that a charge can be found without its key.
            "reference": self.leased.order_id,
            "amount": self.leased.amount,
            "currency": self.leased.currency,
            "payment_method": payment_method,
        }));
        let request = request.header("idempotency-key", self.leased.key());
        // The lease was valid a moment ago. A process that is paused here may still send the charge after
        // another process took over; the key makes that harmless.
        crash::point("charge.sending");
        Ok(provider_answer::read_charge(&send(request).await?))
    }

    async fn cancel_key(&self) -> reqwest::Result<ProviderAnswer> {
        let request = self.post(&self.client.cancellations_url).json(&json!({
            "key": self.leased.key(),
            "reference": self.leased.order_id,
        }));
        Ok(provider_answer::read_cancellation(&send(request).await?))
    }

    async fn refund(&self, charge_id: &str, key: &str) -> reqwest::Result<ProviderAnswer> {
        let request = self.post(&self.client.refunds_url).json(&json!({
            "charge_id": charge_id,
            "amount": self.leased.amount,
            "reference": self.leased.order_id,
        }));
        let response = send(request.header("idempotency-key", key)).await?;
        Ok(provider_answer::read_refund(&response))
    }

    async fn look_up_charge(&self) -> reqwest::Result<ProviderAnswer> {
        let (key, reference) = (self.leased.key(), self.leased.order_id.to_string());
        let by_key = self.get(&self.client.charges_url, "key", &key);
        let by_reference = self.get(&self.client.charges_url, "reference", &reference);
        // Both at once: a look-up takes no longer than any other call, and fits into the lease.
        let (by_key, by_reference) = tokio::try_join!(send(by_key), send(by_reference))?;
        Ok(provider_answer::read_charge_lookup(
            &key,
            &by_key,
            &by_reference,
        ))
    }

    async fn look_up_refund(&self, key: &str) -> reqwest::Result<ProviderAnswer> {
        let by_key = send(self.get(&self.client.refunds_url, "key", key)).await?;
        Ok(provider_answer::read_refund_lookup(key, &by_key))
    }

    fn post(&self, url: &Url) -> RequestBuilder {
        self.with_context(self.client.http.post(url.clone()))
    }

    fn get(&self, url: &Url, name: &str, value: &str) -> RequestBuilder {
        self.with_context(self.client.http.get(url.clone()).query(&[(name, value)]))
    }

    fn with_context(&self, request: RequestBuilder) -> RequestBuilder {
        let request = request.header(CORRELATION_ID, &self.leased.correlation_id);
        // The call ends with the lease, however late it started.
        let request = request.timeout(self.leased.ends.remaining().min(self.client.timeout));
        match self.traceparent {
            Some(traceparent) => request.header(TRACEPARENT, traceparent),
            None => request,
        }
    }
}

async fn send(request: RequestBuilder) -> reqwest::Result<Response> {
    let raw = request.send().await?;
    Ok(Response {
        retry_after: retry_after::parse(raw.headers()),
        status: raw.status().as_u16(),
        body: raw.bytes().await?.to_vec(),
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
