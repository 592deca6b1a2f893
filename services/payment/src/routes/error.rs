//! Everything that can go wrong in a request, and the one place that gives it a status.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use service_kit::{Problem, database};
use thiserror::Error as ThisError;

/// How soon a client may ask again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug, ThisError)]
pub enum Error {
    #[error("no such payment")]
    NotFound,
    #[error("bad query: {0}")]
    Query(&'static str),
    #[error("a sweep is under way")]
    Reconciling,
    #[error("store")]
    Store(#[from] sqlx::Error),
    #[error("sweep")]
    Sweep(#[source] anyhow::Error),
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        match error {
            Error::NotFound => Self::new(
                StatusCode::NOT_FOUND,
                "payment_not_found",
                "There is no such payment.",
            ),
            Error::Query(detail) => Self::new(StatusCode::BAD_REQUEST, "malformed_query", *detail),
            Error::Reconciling => Self::new(
                StatusCode::CONFLICT,
                "reconciliation_running",
                "Another sweep is under way. Ask for its report, or try again later.",
            )
            .retry_after(RETRY_AFTER),
            Error::Store(error) if database::is_transient(error) => Self::unavailable(RETRY_AFTER),
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

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        if let Self::Store(_) | Self::Sweep(_) = &self {
            let error: &dyn std::error::Error = &self;
            tracing::error!(error, "a request failed");
        }
        Problem::from(&self).into_response()
    }
}
