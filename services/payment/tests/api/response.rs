//! An HTTP response, read to its end, with the assertions that many tests need.

use reqwest::header::HeaderMap;
use serde_json::Value;
use uuid::Uuid;

#[derive(Clone, Debug)]
pub(crate) struct ApiResponse {
    pub(crate) status: u16,
    headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl ApiResponse {
    pub(crate) async fn read(response: reqwest::Response) -> Self {
        Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.bytes().await.unwrap().to_vec(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{}: {text}", self.status))
    }

    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> &Self {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
        self
    }

    #[track_caller]
    pub(crate) fn payment_id(&self) -> Uuid {
        let body = self.json();
        let id = body["payment_id"].as_str();
        let id = id.unwrap_or_else(|| panic!("no payment id in {body}"));
        id.parse().unwrap()
    }

    /// Asserts that this is a problem. It is retryable exactly if it has a `Retry-After`.
    #[track_caller]
    pub(crate) fn expect_problem(&self, status: u16, code: &str) -> Value {
        self.expect(status);
        let content_type = Some("application/problem+json");
        assert_eq!(self.header("content-type"), content_type);
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status);
        let has_id = problem["correlation_id"].as_str();
        assert!(has_id.is_some_and(|id| !id.is_empty()), "{problem}");
        let retryable = self.header("retry-after").is_some();
        assert_eq!(problem["retryable"], retryable, "{problem}");
        problem
    }

    /// Asserts that the outcome is not known yet, and that the response names its payment.
    #[track_caller]
    pub(crate) fn expect_in_flight(&self, code: &str, payment_id: Uuid) {
        let problem = self.expect_problem(409, code);
        assert_eq!(self.header("retry-after"), Some("1"));
        assert_eq!(problem["payment_id"], payment_id.to_string());
        assert_eq!(problem["payment_url"], format!("/payments/{payment_id}"));
        assert!(!self.is_replay());
    }
}
