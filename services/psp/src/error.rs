//! The provider's errors, and the one place that maps them to HTTP statuses.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use service_kit::database;
use thiserror::Error;

use crate::domain::api_response::ApiResponse;
use crate::domain::{fault, request};

/// When to retry after a 409 or a 503.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

#[derive(Debug, Error)]
pub enum Error {
    #[error(transparent)]
    Request(#[from] request::Invalid),
    #[error(transparent)]
    Fault(#[from] fault::Invalid),
    #[error("send exactly one of the parameters {0}")]
    Query(&'static str),
    #[error("{0}")]
    Parameters(String),
    #[error("the body is too large")]
    BodyTooLarge,
    #[error("no such object")]
    NotFound,
    #[error("this provider does not cancel keys")]
    NotSupported,
    #[error("no such charge")]
    NoSuchCharge,
    #[error("a refund cannot be larger than its charge")]
    RefundTooLarge,
    #[error("only a captured charge can be refunded; this one is pending or has failed")]
    ChargeNotCaptured,
    #[error("this key was used with another request; use a new key")]
    KeyReused,
    #[error("the first request with this key is still in progress; retry later")]
    KeyInFlight,
    #[error("too many faults are armed; clear some first")]
    TooManyFaults,
    #[error("service temporarily unavailable; retry with the same key")]
    Unavailable,
    #[error("internal error; retry with the same key")]
    Internal,
    #[error("database error")]
    Store(#[from] sqlx::Error),
}

impl Error {
    fn status(&self) -> StatusCode {
        match self {
            Self::Request(request::Invalid::Key | request::Invalid::Json)
            | Self::Query(_)
            | Self::Parameters(_) => StatusCode::BAD_REQUEST,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Request(_)
            | Self::Fault(_)
            | Self::KeyReused
            | Self::RefundTooLarge
            | Self::ChargeNotCaptured => StatusCode::UNPROCESSABLE_ENTITY,
            Self::NotFound | Self::NotSupported | Self::NoSuchCharge => StatusCode::NOT_FOUND,
            Self::KeyInFlight | Self::TooManyFaults => StatusCode::CONFLICT,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal | Self::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Request(request::Invalid::Key) => "idempotency_key_required",
            Self::Request(request::Invalid::Json) => "malformed_json",
            Self::Request(request::Invalid::AmountTooSmall) => "amount_too_small",
            Self::Request(request::Invalid::UnknownPaymentMethod) => "unknown_payment_method",
            Self::Request(request::Invalid::Body(_))
            | Self::Fault(_)
            | Self::Query(_)
            | Self::Parameters(_) => "invalid_request",
            Self::BodyTooLarge => "body_too_large",
            Self::NotFound => "not_found",
            Self::NotSupported => "not_supported",
            Self::NoSuchCharge => "no_such_charge",
            Self::RefundTooLarge => "refund_too_large",
            Self::ChargeNotCaptured => "charge_not_captured",
            Self::KeyReused => "idempotency_key_reused",
            Self::KeyInFlight => "idempotency_key_in_flight",
            Self::TooManyFaults => "too_many_faults",
            Self::Unavailable => "unavailable",
            Self::Internal | Self::Store(_) => "internal_error",
        }
    }

    /// The error without internals: the cause of a store failure goes to the log only.
    fn for_caller(self) -> Self {
        match self {
            Self::Store(cause) => {
                tracing::error!(error = &cause as &dyn std::error::Error, "database error");
                Self::from_store(&cause)
            }
            other => other,
        }
    }

    /// For a store failure that was already logged.
    pub fn from_store(cause: &sqlx::Error) -> Self {
        if database::is_transient(cause) {
            Self::Unavailable
        } else {
            Self::Internal
        }
    }
}

impl From<database::Error> for Error {
    fn from(error: database::Error) -> Self {
        match error {
            database::Error::Sql(cause) => Self::Store(cause),
            database::Error::TimedOut(_) => Self::Unavailable,
            database::Error::Inconsistent(_) => Self::Internal,
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let error = self.for_caller();
        let status = error.status();
        let body = ApiResponse::error(status.as_u16(), error.code(), &error.to_string());
        let mut response = body.into_response();
        if matches!(error, Self::KeyInFlight | Self::Unavailable) {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        response
    }
}

impl IntoResponse for ApiResponse {
    fn into_response(self) -> Response {
        // This provider wrote every stored response, so the fallback is only for a row edited manually.
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let content_type = [(header::CONTENT_TYPE, "application/json")];
        (status, content_type, self.body).into_response()
    }
}
