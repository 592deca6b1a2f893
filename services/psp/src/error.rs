//! Everything that can go wrong, and the one place where it becomes a status.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use service_kit::database;
use thiserror::Error;

use crate::domain::answer::Answer;
use crate::domain::{fault, request};

/// When to come back after a 409 or a 503.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

#[derive(Debug, Error)]
pub enum Error {
    #[error(transparent)]
    Request(#[from] request::Invalid),
    #[error(transparent)]
    Fault(#[from] fault::Invalid),
    #[error("{0}")]
    Malformed(String),
    #[error("ask with exactly one of {0}")]
    Query(&'static str),
    #[error("there is no such object")]
    NotFound,
    #[error("there is no such charge")]
    NoSuchCharge,
    #[error("a refund cannot be larger than its charge")]
    RefundTooLarge,
    #[error("this key was used with another request")]
    KeyReused,
    #[error("the first request with this key is still being processed")]
    KeyInFlight,
    #[error("the board of faults is full: clear it first")]
    BoardFull,
    #[error("the books cannot be reached; retry with the same key")]
    Unavailable,
    #[error("something went wrong here; retry with the same key")]
    Internal,
    #[error("the database failed")]
    Store(#[from] sqlx::Error),
}

impl Error {
    fn status(&self) -> StatusCode {
        match self {
            Self::Request(request::Invalid::Key | request::Invalid::Json) | Self::Query(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::Request(request::Invalid::Body(_)) | Self::Fault(_) | Self::Malformed(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Self::KeyReused | Self::RefundTooLarge => StatusCode::UNPROCESSABLE_ENTITY,
            Self::NotFound | Self::NoSuchCharge => StatusCode::NOT_FOUND,
            Self::KeyInFlight | Self::BoardFull => StatusCode::CONFLICT,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal | Self::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Request(request::Invalid::Key) => "idempotency_key_required",
            Self::Request(request::Invalid::Json) => "malformed_json",
            Self::Request(request::Invalid::Body(_))
            | Self::Fault(_)
            | Self::Malformed(_)
            | Self::Query(_) => "invalid_request",
            Self::NotFound => "not_found",
            Self::NoSuchCharge => "no_such_charge",
            Self::RefundTooLarge => "refund_too_large",
            Self::KeyReused => "idempotency_key_reused",
            Self::KeyInFlight => "idempotency_key_in_flight",
            Self::BoardFull => "too_many_faults",
            Self::Unavailable => "unavailable",
            Self::Internal | Self::Store(_) => "internal_error",
        }
    }

    /// What a caller may know of it; the cause of a store's failure goes to the log and no further.
    fn for_caller(self) -> Self {
        match self {
            Self::Store(cause) => {
                tracing::error!(
                    error = &cause as &dyn std::error::Error,
                    "the database failed"
                );
                Self::from_store(&cause)
            }
            other => other,
        }
    }

    /// For a failure that has been logged already.
    pub fn from_store(cause: &sqlx::Error) -> Self {
        if database::is_transient(cause) {
            Self::Unavailable
        } else {
            Self::Internal
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let error = self.for_caller();
        let status = error.status();
        let answer = Answer::error(status.as_u16(), error.code(), &error.to_string());
        let mut response = answer.into_response();
        if matches!(error, Self::KeyInFlight | Self::Unavailable) {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        response
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        // Every answer is made by this provider or checked on its way in; the fallback is for a row
        // that somebody edited by hand.
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let content_type = [(header::CONTENT_TYPE, "application/json")];
        (status, content_type, self.body).into_response()
    }
}
