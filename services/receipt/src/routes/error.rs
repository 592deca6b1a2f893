//! The errors of a request, and the one place that maps them to HTTP statuses.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use service_kit::{Problem, database, request_error};
use thiserror::Error as ThisError;

#[derive(Debug, ThisError)]
pub enum Error {
    #[error("receipt not found")]
    NotFound,
    #[error("the store failed")]
    Store(#[from] database::Error),
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        match error {
            Error::NotFound => Self::new(
                StatusCode::NOT_FOUND,
                "not_found",
                "This order has no captured payment yet, so it has no receipt.",
            ),
            Error::Store(error) => Self::from(error),
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        request_error::respond(&self, Problem::from(&self))
    }
}
