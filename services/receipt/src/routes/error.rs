//! The errors of a request, and the one place that maps them to HTTP statuses.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use service_kit::{Problem, database};
use thiserror::Error as ThisError;

const RETRY_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug, ThisError)]
pub enum Error {
    #[error("no such receipt")]
    NotFound,
    #[error("store")]
    Store(#[from] database::Error),
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let problem = match &self {
            Self::NotFound => Problem::new(
                StatusCode::NOT_FOUND,
                "not_found",
                "This order has no receipt: no payment of it was captured so far.",
            ),
            Self::Store(error) if error.is_transient() => Problem::unavailable(RETRY_AFTER),
            Self::Store(error) => {
                tracing::error!(%error, "receipt not read");
                Problem::internal()
            }
        };
        problem.into_response()
    }
}
