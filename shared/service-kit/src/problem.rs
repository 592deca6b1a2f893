//! Error responses: problem details as in RFC 9457.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

pub const CONTENT_TYPE: &str = "application/problem+json";

/// An error as the client sees it. It has no internal details: causes go to the log.
#[derive(Clone, Debug)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    retryable: bool,
    retry_after: Option<Duration>,
    extra: Map<String, Value>,
}

impl Problem {
    /// `code` is stable, for programs. `detail` is for people: what happened, and what to do.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
            retryable: false,
            retry_after: None,
            extra: Map::new(),
        }
    }

    /// The store is unreachable, or its response was lost: the outcome of the request is unknown.
    pub fn unavailable(retry_after: Duration) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "temporarily_unavailable",
            "Service temporarily unavailable; retry with the same key, if the request has one.",
        )
        .retry_after(retry_after)
    }

    /// An unexpected error. A retry is safe: every request that changes something is idempotent.
    pub fn internal() -> Self {
        let mut problem = Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal_error",
            "Internal error; retry with the same key, if the request has one.",
        );
        problem.retryable = true;
        problem
    }

    /// Marks the problem as retryable after this delay.
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.retryable = true;
        self.retry_after = Some(delay);
        self
    }

    /// Adds a member to the body, such as the URL of the resource.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(name.to_owned(), value.into());
        self
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The JSON text. Callers that store the response need it.
    pub fn body(&self) -> Vec<u8> {
        let mut body = json!({
            "type": format!("urn:chargeonce:problem:{}", self.code),
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.detail,
            "retryable": self.retryable,
            "correlation_id": telemetry::Context::current().correlation_id.as_ref(),
        });
        if let Value::Object(members) = &mut body {
            members.extend(self.extra.clone());
        }
        body.to_string().into_bytes()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.body()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        if let Some(delay) = self.retry_after {
            // Whole seconds, rounded up: with zero, clients would retry in a loop.
            let seconds = delay.as_millis().div_ceil(1_000).max(1);
            if let Ok(value) = HeaderValue::from_str(&seconds.to_string()) {
                headers.insert(header::RETRY_AFTER, value);
            }
        }
        response
    }
}
