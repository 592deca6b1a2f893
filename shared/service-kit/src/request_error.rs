//! The errors that the APIs share: authentication, idempotency key, body and store.
//!
//! A service wraps [`RequestError`] in its own error type and adds its own cases. The crates that
//! own a cause convert it: `idempotency` a malformed key, `api-keys` a failed authentication.

use std::fmt::Display;
use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use thiserror::Error;

use crate::database::{self, Inconsistent, TimedOut};
use crate::{Problem, body};

/// How soon a client may retry. A key is in flight for one commit, and most outages are short.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a request failed, apart from the work that it asked for.
#[derive(Debug, Error)]
pub enum RequestError {
    #[error("no valid API key")]
    Unauthenticated,
    /// The reason, without a full stop.
    #[error("{0}")]
    MalformedKey(String),
    #[error(transparent)]
    Body(#[from] body::Error),
    /// The body has a card number. Neither the error nor the response contains it.
    #[error("the body has a card number")]
    CardNumber,
    #[error("the key was used for another request")]
    KeyReused,
    #[error("another request holds the key")]
    KeyInFlight,
    #[error("the store is unreachable or too busy")]
    Unavailable,
    #[error("the store failed")]
    Store(#[from] database::Error),
}

impl From<sqlx::Error> for RequestError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<TimedOut> for RequestError {
    fn from(error: TimedOut) -> Self {
        Self::Store(error.into())
    }
}

impl From<Inconsistent> for RequestError {
    fn from(error: Inconsistent) -> Self {
        Self::Store(error.into())
    }
}

impl From<&RequestError> for Problem {
    fn from(error: &RequestError) -> Self {
        match error {
            RequestError::Unauthenticated => Self::new(
                StatusCode::UNAUTHORIZED,
                "unauthenticated",
                "Send a valid API key: Authorization: Bearer <key>.",
            ),
            RequestError::MalformedKey(reason) => Self::new(
                StatusCode::BAD_REQUEST,
                "malformed_idempotency_key",
                sentence(reason),
            ),
            RequestError::Body(error) => Self::from(error),
            RequestError::CardNumber => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "card_number",
                "The body has a card number. Never send one here. As payment_method send the name \
                 that the provider gave to the card.",
            ),
            RequestError::KeyReused => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                "This key was used for another request. Use a new key for a new request.",
            ),
            RequestError::KeyInFlight => Self::new(
                StatusCode::CONFLICT,
                "idempotency_key_in_flight",
                "Another request with this key is in progress. Retry with the same key.",
            )
            .retry_after(RETRY_AFTER),
            RequestError::Unavailable => Self::unavailable(RETRY_AFTER),
            RequestError::Store(error) => Self::from(error),
        }
    }
}

impl From<&database::Error> for Problem {
    fn from(error: &database::Error) -> Self {
        if error.is_transient() {
            Self::unavailable(RETRY_AFTER)
        } else {
            Self::internal()
        }
    }
}

/// Turns an error and its problem into a response. A server error is logged here, once, with its
/// causes; the client sees only the problem.
pub fn respond(error: &(dyn std::error::Error + 'static), problem: Problem) -> Response {
    let status = problem.status();
    if status.is_server_error() {
        let correlation_id = telemetry::Context::current().correlation_id;
        tracing::error!(error, %correlation_id, "request failed");
    }
    let mut response = problem.into_response();
    if status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        let headers = response.headers_mut();
        headers.insert(header::WWW_AUTHENTICATE, scheme);
    }
    response
}

/// The problem for an operator's request whose work failed. The causes are logged here, once.
pub fn operator_problem(error: impl Into<anyhow::Error>) -> Problem {
    let error = error.into();
    let causes = format!("{error:#}");
    tracing::warn!(error = causes, "operator request failed");
    if database::is_transient_chain(&error) {
        Problem::unavailable(RETRY_AFTER)
    } else {
        Problem::internal()
    }
}

/// The reason as a sentence: a capital letter first, a full stop last.
pub fn sentence(reason: impl Display) -> String {
    let text = reason.to_string();
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(error: &RequestError) -> Response {
        respond(error, Problem::from(error))
    }

    #[test]
    fn each_error_has_its_status_and_headers() {
        let timed_out = RequestError::from(TimedOut(RETRY_AFTER));
        for (error, status, retry_after) in [
            (RequestError::Unauthenticated, 401, None),
            (RequestError::MalformedKey("too long".into()), 400, None),
            (RequestError::Body(body::Error::ContentType), 415, None),
            (RequestError::CardNumber, 422, None),
            (RequestError::KeyReused, 422, None),
            (RequestError::KeyInFlight, 409, Some("1")),
            (RequestError::Unavailable, 503, Some("1")),
            (timed_out, 503, Some("1")),
            (sqlx::Error::RowNotFound.into(), 500, None),
            (Inconsistent::new("a locked row changed").into(), 500, None),
        ] {
            let response = response(&error);
            assert_eq!(response.status(), status, "{error:?}");
            let headers = response.headers();
            let header = headers.get(header::RETRY_AFTER);
            assert_eq!(
                header.map(HeaderValue::as_bytes),
                retry_after.map(str::as_bytes)
            );
            let asks_for_key = headers.contains_key(header::WWW_AUTHENTICATE);
            assert_eq!(asks_for_key, status == 401, "{error:?}");
        }
    }

    #[test]
    fn operator_may_retry_while_the_store_is_unreachable() {
        for (cause, status) in [
            (anyhow::Error::new(TimedOut(RETRY_AFTER)), 503),
            (sqlx::Error::PoolTimedOut.into(), 503),
            (database::Error::from(sqlx::Error::RowNotFound).into(), 500),
            (anyhow::anyhow!("a defect"), 500),
        ] {
            let problem = operator_problem(cause.context("redriving"));
            assert_eq!(problem.status(), status);
        }
    }

    #[test]
    fn reason_becomes_a_sentence() {
        assert_eq!(sentence("a key is missing"), "A key is missing.");
        assert_eq!(sentence("éclair"), "Éclair.");
        assert_eq!(sentence(""), ".");
    }
}
