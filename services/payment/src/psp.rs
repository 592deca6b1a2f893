//! The mock provider's protocol: requests and their responses over HTTP.

mod books;
mod responses;

use std::time::Duration;

use anyhow::Context as _;
use reqwest::{RequestBuilder, Url};
use serde_json::json;
use service_kit::{crash, retry_after};
use telemetry::http::{CORRELATION_ID, TRACEPARENT};

use crate::domain::ProviderAnswer;
use crate::provider::{AnswerFuture, BooksPage, Call, Provider};
use responses::{Expected, Response};

/// Maximum number of idle connections kept open to the provider.
const IDLE_CONNECTIONS_MAX: usize = 1_024;
/// Longest response to a call, in bytes. A charge has less than one kilobyte.
const RESPONSE_LEN_MAX: usize = 256 * 1_024;
/// The provider repeats a stored response.
const REPLAYED: &str = "idempotent-replayed";

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

    async fn send_charge(
        &self,
        call: Call<'_>,
        payment_method: &str,
    ) -> Result<ProviderAnswer, Failure> {
        let request = self.post(&self.charges_url, call).json(&json!({
            // The order, so that a charge can be found without its key.
            "reference": call.leased.reference,
            "amount": call.leased.amount,
            "currency": call.leased.currency,
            "payment_method": payment_method,
        }));
        let request = request.header("idempotency-key", call.leased.key());
        // The lease was valid a moment ago. A process that is paused here may still send the charge after
        // another process took over; the key makes that harmless.
        crash::point("charge.sending");
        let response = send(request, RESPONSE_LEN_MAX).await?;
        let answer = responses::charge(&Expected::of(call.leased), &response);
        let ProviderAnswer::Captured { .. } = &answer else {
            return Ok(answer);
        };
        if !response.replayed {
            return Ok(answer);
        }
        // A replay shows the charge as it was. Only the books show that it was refunded manually since.
        match self.find_charge(call).await? {
            // The lookup lags behind.
            ProviderAnswer::Absent => Ok(answer),
            current => Ok(current),
        }
    }

    async fn find_charge(&self, call: Call<'_>) -> Result<ProviderAnswer, Failure> {
        let key = call.leased.key();
        let by_key = self.get(&self.charges_url, ("key", &key), call);
        let by_reference = ("reference", &*call.leased.reference);
        let by_reference = self.get(&self.charges_url, by_reference, call);
        // Both in parallel: a lookup takes no longer than any other call, and fits into the lease.
        let (by_key, by_reference) = tokio::try_join!(
            send(by_key, RESPONSE_LEN_MAX),
            send(by_reference, RESPONSE_LEN_MAX)
        )?;
        let expected = Expected::of(call.leased);
        Ok(responses::charge_lookup(
            &expected,
            &key,
            &by_key,
            &by_reference,
        ))
    }

    async fn cancel(&self, call: Call<'_>) -> Result<ProviderAnswer, Failure> {
        let request = self.post(&self.cancellations_url, call).json(&json!({
            "key": call.leased.key(),
            "reference": call.leased.reference,
        }));
        let response = send(request, RESPONSE_LEN_MAX).await?;
        Ok(responses::cancellation(
            &Expected::of(call.leased),
            &response,
        ))
    }

    /// Looks up the charge first: an operator may have refunded it manually, under another key.
    async fn send_refund(
        &self,
        call: Call<'_>,
        charge_id: &str,
    ) -> Result<ProviderAnswer, Failure> {
        match self.find_refund(call, charge_id).await? {
            ProviderAnswer::Absent => {}
            found => return Ok(found),
        }
        let request = self.post(&self.refunds_url, call).json(&json!({
            "charge_id": charge_id,
            "amount": call.leased.amount,
            "reference": call.leased.reference,
        }));
        let request = request.header("idempotency-key", call.leased.key());
        let response = send(request, RESPONSE_LEN_MAX).await?;
        Ok(responses::refund(&Expected::of(call.leased), &response))
    }

    async fn find_refund(
        &self,
        call: Call<'_>,
        charge_id: &str,
    ) -> Result<ProviderAnswer, Failure> {
        let key = call.leased.key();
        let by_key = self.get(&self.refunds_url, ("key", &key), call);
        let by_charge = self.get(&self.refunds_url, ("charge_id", charge_id), call);
        let (by_key, by_charge) = tokio::try_join!(
            send(by_key, RESPONSE_LEN_MAX),
            send(by_charge, RESPONSE_LEN_MAX)
        )?;
        let expected = Expected::of(call.leased);
        Ok(responses::refund_lookup(
            &expected, &key, charge_id, &by_key, &by_charge,
        ))
    }

    fn post(&self, url: &Url, call: Call<'_>) -> RequestBuilder {
        self.with_context(self.http.post(url.clone()), call)
    }

    fn get(&self, url: &Url, parameter: (&str, &str), call: Call<'_>) -> RequestBuilder {
        self.with_context(self.http.get(url.clone()).query(&[parameter]), call)
    }

    fn with_context(&self, request: RequestBuilder, call: Call<'_>) -> RequestBuilder {
        let request = request.header(CORRELATION_ID, &call.leased.correlation_id);
        // The call ends with the lease, however late it started.
        let request = request.timeout(call.leased.ends.remaining().min(self.timeout));
        match call.traceparent {
            Some(traceparent) => request.header(TRACEPARENT, traceparent),
            None => request,
        }
    }
}

impl Provider for Client {
    fn charge<'a>(&'a self, call: Call<'a>, payment_method: &'a str) -> AnswerFuture<'a> {
        Box::pin(async move { or_unknown(self.send_charge(call, payment_method).await) })
    }

    fn look_up_charge<'a>(&'a self, call: Call<'a>) -> AnswerFuture<'a> {
        Box::pin(async move { or_unknown(self.find_charge(call).await) })
    }

    fn cancel_key<'a>(&'a self, call: Call<'a>) -> AnswerFuture<'a> {
        Box::pin(async move { or_unknown(self.cancel(call).await) })
    }

    fn refund<'a>(&'a self, call: Call<'a>, charge_id: &'a str) -> AnswerFuture<'a> {
        Box::pin(async move { or_unknown(self.send_refund(call, charge_id).await) })
    }

    fn look_up_refund<'a>(&'a self, call: Call<'a>, charge_id: &'a str) -> AnswerFuture<'a> {
        Box::pin(async move { or_unknown(self.find_refund(call, charge_id).await) })
    }

    fn books<'a>(&'a self, after: &'a str, limit: u32) -> BooksPage<'a> {
        Box::pin(self.read_books(after, limit))
    }
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Failure(&'static str);

fn or_unknown(answer: Result<ProviderAnswer, Failure>) -> ProviderAnswer {
    answer.unwrap_or_else(|failure| ProviderAnswer::Unknown {
        reason: failure.0.to_owned(),
        retry_after: None,
    })
}

/// Sends the request and reads a response of at most `len_max` bytes.
async fn send(request: RequestBuilder, len_max: usize) -> Result<Response, Failure> {
    let mut raw = request.send().await.map_err(describe)?;
    let replayed = raw.headers().get(REPLAYED);
    let mut response = Response {
        retry_after: retry_after::parse(raw.headers()),
        status: raw.status().as_u16(),
        replayed: replayed.is_some_and(|value| value == "true"),
        body: Vec::new(),
    };
    while let Some(chunk) = raw.chunk().await.map_err(describe)? {
        if response.body.len() + chunk.len() > len_max {
            return Err(Failure("the response is too long"));
        }
        response.body.extend_from_slice(&chunk);
    }
    Ok(response)
}

fn describe(error: reqwest::Error) -> Failure {
    Failure(match error {
        _ if error.is_timeout() => "timed out",
        _ if error.is_connect() => "no connection",
        _ => "connection lost",
    })
}
