//! Error responses of the console, as RFC 9457 problems.

use axum::Json;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// An error response.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: String,
    /// The command that does what the console cannot do here.
    instead: Option<String>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code,
            detail: detail.into(),
            instead: None,
        }
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", detail)
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// The console cannot do this here, but the user can with a command.
    pub(crate) fn not_here(detail: impl Into<String>, instead: impl Into<String>) -> Self {
        Self {
            instead: Some(instead.into()),
            ..Self::new(StatusCode::CONFLICT, "not_possible_here", detail)
        }
    }
}

impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "system", format!("{error:#}"))
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let body = json!({
            "type": "about:blank", "title": title, "status": self.status.as_u16(),
            "code": self.code, "detail": self.detail, "instead": self.instead,
        });
        let content_type = [(header::CONTENT_TYPE, "application/problem+json")];
        (self.status, content_type, Json(body)).into_response()
    }
}
