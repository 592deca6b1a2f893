//! Calls to the payment provider.

use std::time::Duration;

use anyhow::Context as _;
use reqwest::{StatusCode, Url};
use serde::Serialize;
use service_kit::retry_after;
use telemetry::http::{CORRELATION_ID, TRACEPARENT};

use crate::domain::{Answer, answer};
use crate::store::payments::Leased;

/// Most idle connections kept open to the provider.
const IDLE_CONNECTIONS_MAX: usize = 256;

#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    charges_url: Url,
}

#[derive(Serialize)]
struct Charge<'a> {
    /// The order, so that charges can be found without a key.
    reference: String,
    amount: i64,
    currency: &'a str,
    payment_method: &'a str,
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
        Ok(Self {
            http,
            charges_url: base
                .join("/v1/charges")
                .context("PSP_URL cannot be a base")?,
        })
    }

    /// Sends the charge under its key. Never fails: what is not an answer is [`Answer::Unknown`].
    pub async fn charge(&self, key: &str, payment: &Leased, traceparent: Option<&str>) -> Answer {
        let charge = Charge {
            reference: payment.order_id.to_string(),
            amount: payment.amount,
            currency: &payment.currency,
            payment_method: &payment.payment_method,
        };
        let mut request = self
            .http
            .post(self.charges_url.clone())
            .header("idempotency-key", key)
            .header(CORRELATION_ID, &payment.correlation_id)
            .json(&charge);
        if let Some(traceparent) = traceparent {
            request = request.header(TRACEPARENT, traceparent);
        }
        match send(request).await {
            Ok((status, body, retry_after)) => answer::read(status.as_u16(), &body, retry_after),
            Err(error) => Answer::Unknown {
                reason: describe(&error),
                retry_after: None,
            },
        }
    }
}

async fn send(
    request: reqwest::RequestBuilder,
) -> reqwest::Result<(StatusCode, Vec<u8>, Option<Duration>)> {
    let response = request.send().await?;
    let retry_after = retry_after::parse(response.headers());
    let status = response.status();
    Ok((status, response.bytes().await?.to_vec(), retry_after))
}

fn describe(error: &reqwest::Error) -> String {
    let kind = match error {
        _ if error.is_timeout() => "timed out",
        _ if error.is_connect() => "no connection",
        _ => "connection lost",
    };
    kind.to_owned()
}
