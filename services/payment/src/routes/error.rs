//! Everything that can go wrong in a request, and the one place that gives it a status.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use idempotency::MalformedKey;
use service_kit::database::{self, TimedOut};
use service_kit::{Problem, body};
use thiserror::Error as ThisError;
use uuid::Uuid;

use crate::domain::direct::InvalidCharge;
use crate::responses::about;

/// How soon a client may ask again.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug, ThisError)]
pub enum Error {
    #[error("no valid API key")]
    Unauthenticated,
    #[error(transparent)]
    Key(#[from] MalformedKey),
    #[error(transparent)]
    Body(#[from] body::Error),
    #[error("the body is JSON but not a payment")]
    Shape(#[source] serde_json::Error),
    #[error(transparent)]
    Invalid(#[from] InvalidCharge),
    #[error("key reused with another request")]
    KeyReused,
    #[error("key in flight")]
    KeyInFlight { payment_id: Option<Uuid> },
    #[error("the reference names {payment_id}, which is open")]
    PaymentInFlight { payment_id: Uuid },
    #[error("no such payment")]
    NotFound,
    #[error("bad query: {0}")]
    Query(&'static str),
    #[error("a sweep is under way")]
    Reconciling,
    #[error("store")]
    Store(#[from] database::Error),
    #[error("sweep")]
    Sweep(#[source] anyhow::Error),
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<TimedOut> for Error {
    fn from(error: TimedOut) -> Self {
        Self::Store(error.into())
    }
}

impl From<api_keys::Error> for Error {
    fn from(error: api_keys::Error) -> Self {
        match error {
            api_keys::Error::Unauthenticated => Self::Unauthenticated,
            api_keys::Error::Store(error) => Self::Store(error),
        }
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        let bad = |code, detail: String| Self::new(StatusCode::BAD_REQUEST, code, detail);
        let unprocessable =
            |code, detail: String| Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail);
        match error {
            Error::Unauthenticated => Self::new(
                StatusCode::UNAUTHORIZED,
                "unauthenticated",
                "Send a valid API key: Authorization: Bearer <key>.",
            ),
            Error::Key(reason) => bad("malformed_idempotency_key", sentence(reason)),
            Error::Body(reason) => Self::from(reason),
            Error::Shape(reason) => unprocessable("invalid_payment", sentence(reason)),
            Error::Invalid(reason) => unprocessable("invalid_payment", sentence(reason)),
            Error::KeyReused => unprocessable(
                "idempotency_key_reused",
                "This key was used for another request. Mint a new key for a new one.".to_owned(),
            ),
            Error::KeyInFlight { payment_id } => in_flight(*payment_id),
            Error::PaymentInFlight { payment_id } => about(
                Self::new(
                    StatusCode::CONFLICT,
                    "payment_in_flight",
                    "A payment with this reference is under way. Retry with the same key.",
                )
                .retry_after(RETRY_AFTER),
                *payment_id,
            ),
            Error::NotFound => Self::new(
                StatusCode::NOT_FOUND,
                "payment_not_found",
                "There is no such payment.",
            ),
            Error::Query(detail) => bad("malformed_query", (*detail).to_owned()),
            Error::Reconciling => Self::new(
                StatusCode::CONFLICT,
                "reconciliation_running",
                "Another sweep is under way. Ask for its report, or try again later.",
            )
            .retry_after(RETRY_AFTER),
            Error::Store(error) if error.is_transient() => Self::unavailable(RETRY_AFTER),
            Error::Sweep(error) if is_store_away(error) => Self::unavailable(RETRY_AFTER),
            Error::Sweep(_) => Self::new(
                StatusCode::BAD_GATEWAY,
                "reconciliation_failed",
                "The sweep did not get to its end; the log says why. It may be started again.",
            )
            .retry_after(RETRY_AFTER),
            Error::Store(_) => Self::internal(),
        }
    }
}

fn in_flight(payment_id: Option<Uuid>) -> Problem {
    let problem = Problem::new(
        StatusCode::CONFLICT,
        "idempotency_key_in_flight",
        "A request with this key is being worked on. Retry with the same key.",
    )
    .retry_after(RETRY_AFTER);
    match payment_id {
        Some(id) => about(problem, id),
        None => problem,
    }
}

fn is_store_away(error: &anyhow::Error) -> bool {
    error.chain().any(database::is_transient_cause)
}

fn sentence(reason: impl std::fmt::Display) -> String {
    let text = reason.to_string();
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), chars.as_str())
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let problem = Problem::from(&self);
        if problem.status().is_server_error() {
            let correlation_id = telemetry::Context::current().correlation_id;
            let error = &self as &dyn std::error::Error;
            tracing::error!(error, %correlation_id, "request failed");
        }
        let mut response = problem.into_response();
        if matches!(self, Self::Unauthenticated) {
            let scheme = HeaderValue::from_static("Bearer");
            let headers = response.headers_mut();
            headers.insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
