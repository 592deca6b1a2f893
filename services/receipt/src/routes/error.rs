//! The errors of a request, and the one place that maps them to HTTP statuses.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use service_kit::request_error::{self, sentence};
use service_kit::{Problem, database};
use thiserror::Error as ThisError;

#[derive(Debug, ThisError)]
pub enum Error {
    #[error("receipt not found")]
    NotFound,
    #[error("malformed query")]
    Query(&'static str),
    #[error("neither an order nor all mails are named")]
    Release,
    #[error("invalid resolution: {0}")]
    Resolution(&'static str),
    #[error("no such mail")]
    NoSuchMail,
    #[error("the mail is {status} after {tries} tries")]
    NotInDoubt { status: String, tries: i32 },
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
            Error::Query(usage) => Self::new(StatusCode::BAD_REQUEST, "malformed_query", *usage),
            Error::Release => Self::new(
                StatusCode::BAD_REQUEST,
                "invalid_body",
                "Send {\"order_id\": …} or {\"all\": true}.",
            ),
            Error::Resolution(reason) => {
                Self::new(StatusCode::BAD_REQUEST, "invalid_body", sentence(reason))
            }
            Error::NoSuchMail => Self::new(
                StatusCode::NOT_FOUND,
                "no_such_mail",
                "No mail with this event id and type waits for an operator or was resolved.",
            ),
            Error::NotInDoubt { status, tries } => Self::new(
                StatusCode::CONFLICT,
                "not_in_doubt",
                format!(
                    "The mail is {status} after {tries} tries, or the other decision was made. \
                     Read it again before you decide."
                ),
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
