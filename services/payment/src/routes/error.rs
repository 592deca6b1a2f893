//! Everything that can go wrong in a request, and the one place that maps it to a status.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use money::InvalidPaymentMethod;
use service_kit::request_error::{self, sentence};
use service_kit::{Problem, RequestError, database};
use thiserror::Error as ThisError;
use uuid::Uuid;

use crate::domain::direct::InvalidCharge;
use crate::responses::about;

pub(super) use service_kit::request_error::RETRY_AFTER;

#[derive(Debug, ThisError)]
pub enum Error {
    /// Errors that all APIs share. Any error that converts into a [`RequestError`] becomes this
    /// variant.
    #[error(transparent)]
    Request(RequestError),
    #[error("the body is JSON but not a payment")]
    Shape(String),
    #[error(transparent)]
    Invalid(InvalidCharge),
    #[error("another request holds the key")]
    KeyInFlight { payment_id: Option<Uuid> },
    #[error("payment {payment_id} has the reference and is still open")]
    PaymentInFlight { payment_id: Uuid },
    #[error("payment not found")]
    NotFound,
    #[error("malformed query: {0}")]
    Query(&'static str),
    #[error("another reconciliation is running")]
    Reconciling,
    #[error("the reconciliation failed")]
    Reconciliation(#[source] anyhow::Error),
    #[error("already settled as {0}")]
    AlreadySettled(String),
    #[error("the decision was not recorded")]
    Resolution(#[source] anyhow::Error),
}

impl<E: Into<RequestError>> From<E> for Error {
    fn from(error: E) -> Self {
        Self::Request(error.into())
    }
}

impl From<InvalidCharge> for Error {
    fn from(error: InvalidCharge) -> Self {
        match error {
            InvalidCharge::PaymentMethod(InvalidPaymentMethod::CardNumber) => {
                Self::Request(RequestError::CardNumber)
            }
            other => Self::Invalid(other),
        }
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        let invalid = |reason: String| {
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            Self::new(status, "invalid_payment", reason)
        };
        match error {
            Error::Request(error) => Self::from(error),
            Error::Shape(reason) => invalid(sentence(reason)),
            Error::Invalid(reason) => invalid(sentence(reason)),
            Error::KeyInFlight { payment_id } => in_flight(*payment_id),
            Error::PaymentInFlight { payment_id } => about(
                Self::new(
                    StatusCode::CONFLICT,
                    "payment_in_flight",
                    "A payment with this reference is in progress. Retry with the same key.",
                )
                .retry_after(RETRY_AFTER),
                *payment_id,
            ),
            Error::NotFound => Self::new(
                StatusCode::NOT_FOUND,
                "payment_not_found",
                "There is no payment with this id.",
            ),
            Error::Query(detail) => Self::new(StatusCode::BAD_REQUEST, "malformed_query", *detail),
            Error::Reconciling => Self::new(
                StatusCode::CONFLICT,
                "reconciliation_running",
                "Another reconciliation is running. Read its report, or retry later.",
            )
            .retry_after(RETRY_AFTER),
            Error::Reconciliation(error) | Error::Resolution(error)
                if database::is_transient_chain(error) =>
            {
                Self::unavailable(RETRY_AFTER)
            }
            Error::Resolution(_) => Self::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "internal_error",
                "The decision was not recorded; the log has the cause. It is safe to repeat it.",
            ),
            Error::AlreadySettled(status) => Self::new(
                StatusCode::CONFLICT,
                "already_settled",
                format!("It is already settled as {status}. Nothing was changed."),
            ),
            Error::Reconciliation(_) => Self::new(
                StatusCode::BAD_GATEWAY,
                "reconciliation_failed",
                "The reconciliation did not finish; the log has the cause. It is safe to start it again.",
            )
            .retry_after(RETRY_AFTER),
        }
    }
}

fn in_flight(payment_id: Option<Uuid>) -> Problem {
    let problem = Problem::from(&RequestError::KeyInFlight);
    match payment_id {
        Some(id) => about(problem, id),
        None => problem,
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        request_error::respond(&self, Problem::from(&self))
    }
}
