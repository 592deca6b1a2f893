//! A client of the services' operator routes, which are under `/admin`.

use std::time::Duration;

use anyhow::{Context, bail};
use endpoints::client;
use reqwest::Method;
use serde_json::Value;

/// A reconciliation, a redrive or a republication may take minutes.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);

/// Calls operator routes and reads JSON.
pub(crate) struct AdminClient {
    http: reqwest::Client,
}

impl AdminClient {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let http = client::http(REQUEST_TIMEOUT)?;
        Ok(Self { http })
    }

    /// The JSON of a successful response. Any other response is an error with the service's own
    /// explanation.
    pub(crate) async fn call(
        &self,
        method: Method,
        url: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let text = self.text(&method, url, body).await?;
        serde_json::from_str(&text)
            .with_context(|| format!("{method} {url} did not return JSON: is this the right URL?"))
    }

    /// Sends a request whose successful response has no content.
    pub(crate) async fn send(&self, method: Method, url: &str) -> anyhow::Result<()> {
        self.text(&method, url, None).await?;
        Ok(())
    }

    async fn text(
        &self,
        method: &Method,
        url: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<String> {
        let mut request = self.http.request(method.clone(), url);
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request
            .send()
            .await
            .with_context(|| format!("{method} {url} failed: is the service running?"))?;
        let status = response.status();
        let text = response.text().await.context("reading the response")?;
        if !status.is_success() {
            bail!("{method} {url} returned {status}: {}", explanation(&text));
        }
        Ok(text)
    }
}

/// The `detail` of a problem document, or the whole text.
fn explanation(text: &str) -> String {
    let problem: Option<Value> = serde_json::from_str(text).ok();
    let detail = problem.as_ref().and_then(|it| it["detail"].as_str());
    detail.unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_detail_is_shown_alone() {
        let problem = r#"{"detail":"Try later.","code":"x"}"#;
        assert_eq!(explanation(problem), "Try later.");
        assert_eq!(explanation("<html>"), "<html>");
    }
}
