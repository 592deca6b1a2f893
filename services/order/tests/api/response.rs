//! An HTTP response, read to its end, with the assertions that many tests need.

use reqwest::header::HeaderMap;
use serde_json::Value;
use uuid::Uuid;

#[derive(Clone, Debug)]
pub(crate) struct ApiResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
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

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{}: {text}", self.status))
    }

    #[track_caller]
    pub(crate) fn order_id(&self) -> Uuid {
        let body = self.json();
        let id = body["order_id"].as_str();
        id.unwrap_or_else(|| panic!("no order id in {body}"))
            .parse()
            .unwrap()
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> &Self {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
        self
    }

    /// Asserts that this is a complete problem with this status and code.
    #[track_caller]
    pub(crate) fn expect_problem(&self, status: u16, code: &str) -> Value {
        self.expect(status);
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["type"], format!("urn:chargeonce:problem:{code}"));
        assert_eq!(problem["status"], status);
        for text in ["title", "detail", "correlation_id"] {
            let text = problem[text].as_str();
            assert!(text.is_some_and(|text| !text.is_empty()), "{problem}");
        }
        let retryable = problem["retryable"].as_bool().unwrap();
        // Only a concurrent request or attempt and a failure of the service are worth a retry.
        let is_temporary =
            status >= 500 || ["idempotency_key_in_flight", "payment_open"].contains(&code);
        assert_eq!(retryable, is_temporary, "{problem}");
        problem
    }
}
