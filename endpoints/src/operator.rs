//! The operator listeners: tokens, and a client that sends one with every request.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::client::http;

/// The operator of the demo, of the lab and of tests.
pub const DEMO_NAME: &str = "demo";
/// The demo operator's token. It is public: never list it in a production setting.
pub const DEMO_TOKEN: &str = "demo-operator-token";

/// Random bytes in a new token.
const TOKEN_BYTES: usize = 32;
/// The header with the reason of a change.
const REASON: &str = "x-reason";

/// The token of an operator. Its `Debug` output does not show it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(String);

impl Token {
    /// The public token of the demo.
    pub fn demo() -> Self {
        Self(DEMO_TOKEN.to_owned())
    }

    /// A new random token.
    pub fn random() -> Self {
        let bytes: [u8; TOKEN_BYTES] = rand::random();
        Self(hexadecimal(&bytes))
    }

    /// Whether no token is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The token itself, to be shown once to the person it belongs to.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The entry of `OPERATOR_TOKENS` that admits this token: the name and the token's hash.
    pub fn setting(&self, name: &str) -> String {
        format!("{name}:{}", hexadecimal(&Sha256::digest(&self.0)))
    }
}

impl From<String> for Token {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(…)")
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Calls operator routes with a token, and changes with a reason.
#[derive(Clone, Debug)]
pub struct OperatorClient {
    http: reqwest::Client,
    token: Token,
    reason: Option<String>,
}

impl OperatorClient {
    /// `reason` goes to the audit log. Without one, the services reject changes.
    pub fn new(token: Token, reason: Option<&str>, timeout: Duration) -> anyhow::Result<Self> {
        Ok(Self {
            http: http(timeout)?,
            token,
            reason: reason.map(str::to_owned),
        })
    }

    /// A request with the token and the reason.
    pub fn request(&self, method: Method, url: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, url).bearer_auth(&self.token.0);
        match &self.reason {
            Some(reason) => request.header(REASON, reason),
            None => request,
        }
    }

    /// The JSON of a successful response. Any other response is an error with the service's own
    /// explanation.
    pub async fn call(
        &self,
        method: Method,
        url: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let text = self.send(method.clone(), url, body).await?;
        serde_json::from_str(&text)
            .with_context(|| format!("{method} {url} did not return JSON: is this the right URL?"))
    }

    /// The text of a successful response, which may be empty.
    pub async fn send(
        &self,
        method: Method,
        url: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<String> {
        let mut request = self.request(method.clone(), url);
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

    #[test]
    fn setting_has_the_hash_and_not_the_token() {
        let setting = Token::from("abc".to_owned()).setting("ann");
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(setting, format!("ann:{hash}"));
    }

    #[test]
    fn new_tokens_are_long_and_differ() {
        let (one, other) = (Token::random(), Token::random());
        assert_ne!(one, other);
        assert_eq!(one.reveal().len(), 2 * TOKEN_BYTES);
    }

    /// The compose files cannot compute the hash.
    #[test]
    fn compose_admits_the_demo_token() {
        let setting = Token::demo().setting(DEMO_NAME);
        for file in [
            include_str!("../../docker-compose.yml"),
            include_str!("../../.env.example"),
        ] {
            assert!(file.contains(&setting), "{setting}");
            assert!(file.contains(DEMO_TOKEN));
        }
    }

    #[test]
    fn debug_output_does_not_show_the_token() {
        let token = Token::demo();
        let client = OperatorClient::new(token.clone(), None, Duration::from_secs(1)).unwrap();
        assert!(!format!("{token:?}{client:?}").contains(DEMO_TOKEN));
    }
}
