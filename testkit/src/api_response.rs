//! An HTTP response, read to its end, with the assertions that tests of the APIs need.

// A panic here fails the test, as it should.
#![allow(clippy::unwrap_used, clippy::panic)]

use reqwest::header::HeaderMap;
use serde_json::Value;
use uuid::Uuid;

/// Codes of problems that end without an action of the client: another request is in progress.
const IN_PROGRESS: [&str; 3] = [
    "idempotency_key_in_flight",
    "payment_open",
    "payment_in_flight",
];

/// A response of order or payment.
#[derive(Clone, Debug)]
pub struct ApiResponse {
    /// The HTTP status.
    pub status: u16,
    /// All headers.
    pub headers: HeaderMap,
    /// The body, byte for byte: a replay must repeat exactly these bytes.
    pub body: Vec<u8>,
}

impl ApiResponse {
    /// Reads the whole response.
    pub async fn read(response: reqwest::Response) -> Self {
        Self {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.bytes().await.unwrap().to_vec(),
        }
    }

    /// The value of a header, if the response has it.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Whether the response is marked as a replay.
    pub fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{}: {text}", self.status))
    }

    /// The `order_id` in the body.
    #[track_caller]
    pub fn order_id(&self) -> Uuid {
        self.id("order_id")
    }

    /// The `payment_id` in the body.
    #[track_caller]
    pub fn payment_id(&self) -> Uuid {
        self.id("payment_id")
    }

    #[track_caller]
    fn id(&self, member: &str) -> Uuid {
        let body = self.json();
        let id = body[member].as_str();
        let id = id.unwrap_or_else(|| panic!("no {member} in {body}"));
        id.parse().unwrap()
    }

    /// Asserts the status.
    #[track_caller]
    pub fn expect(&self, status: u16) -> &Self {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
        self
    }

    /// Asserts that this is a complete problem with this status and code.
    #[track_caller]
    pub fn expect_problem(&self, status: u16, code: &str) -> Value {
        self.expect(status);
        let content_type = Some("application/problem+json");
        assert_eq!(self.header("content-type"), content_type);
        let problem = self.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["type"], format!("urn:chargeonce:problem:{code}"));
        assert_eq!(problem["status"], status);
        for text in ["title", "detail", "correlation_id"] {
            let text = problem[text].as_str();
            assert!(text.is_some_and(|text| !text.is_empty()), "{problem}");
        }
        // Only a concurrent request or attempt and a failure of the service are worth a retry.
        let is_temporary = status >= 500 || IN_PROGRESS.contains(&code);
        assert_eq!(problem["retryable"], is_temporary, "{problem}");
        // An unexpected error does not say when it ends.
        let says_when = is_temporary && status != 500;
        assert_eq!(self.header("retry-after").is_some(), says_when, "{problem}");
        problem
    }
}
