//! The operator's side of the services: the routes under `/admin`, asked over HTTP.

use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::Method;
use serde_json::Value;

use endpoints::Service;
use endpoints::client;

/// Services that announce something, in the order in which an order passes them.
pub(crate) const PUBLISHERS: [Service; 3] = [Service::Order, Service::Payment, Service::Fulfilment];
/// Services that consume, and so may have parked something.
pub(crate) const CONSUMERS: [Service; 4] = [
    Service::Order,
    Service::Payment,
    Service::Fulfilment,
    Service::Receipt,
];

/// A redrive or a republication may have much to do.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);

/// Asks one service after another.
pub(crate) struct Operator {
    http: reqwest::Client,
}

impl Operator {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let http = client::http(REQUEST_TIMEOUT)?;
        Ok(Self { http })
    }

    /// The JSON of a good answer; anything else is an error that says what the service said.
    pub(crate) async fn ask(
        &self,
        method: Method,
        url: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let mut request = self.http.request(method.clone(), url);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request
            .send()
            .await
            .with_context(|| format!("{method} {url}: is the service running?"))?;
        let status = response.status();
        let text = response.text().await.context("reading the answer")?;
        if !status.is_success() {
            bail!("{method} {url} answered {status}: {}", said(&text));
        }
        serde_json::from_str(&text).with_context(|| format!("{method} {url} answered no JSON"))
    }
}

/// The sentence of a problem document, or whatever else was answered.
fn said(text: &str) -> String {
    let problem: Option<Value> = serde_json::from_str(text).ok();
    let detail = problem.as_ref().and_then(|it| it["detail"].as_str());
    detail.unwrap_or(text).to_owned()
}

/// For clap: one of [`CONSUMERS`] by its name.
pub(crate) fn parse_service(name: &str) -> Result<Service, String> {
    let found = CONSUMERS.into_iter().find(|service| service.name() == name);
    found.ok_or_else(|| "expected `order`, `payment` or `fulfilment`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_repeats_the_sentence_that_was_meant_for_people() {
        assert_eq!(said(r#"{"detail":"Try later.","code":"x"}"#), "Try later.");
        assert_eq!(said("<html>"), "<html>");
    }

    #[test]
    fn a_service_without_an_inbox_cannot_be_named() {
        assert_eq!(parse_service("payment"), Ok(Service::Payment));
        assert!(parse_service("psp").is_err());
    }
}
