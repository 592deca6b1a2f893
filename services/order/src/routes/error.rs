//! Everything that can go wrong in a request, and the one place that maps it to a status.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use money::InvalidPaymentMethod;
use service_kit::request_error::{self, RETRY_AFTER, sentence};
use service_kit::text_enum::UnknownName;
use service_kit::{Problem, RequestError};
use thiserror::Error as ThisError;
use uuid::Uuid;

use crate::domain::{InvalidDraft, NotPayable};
use crate::intake::NotStored;
use crate::responses;

#[derive(Debug, ThisError)]
pub enum Error {
    /// Errors that all APIs share. Any error that converts into a [`RequestError`] becomes this
    /// variant.
    #[error(transparent)]
    Request(RequestError),
    #[error("the body is JSON but not an order")]
    Shape(String),
    #[error(transparent)]
    Invalid(InvalidDraft),
    #[error("the body is not a payment: {0}")]
    Payment(String),
    #[error("malformed query: {0}")]
    Query(&'static str),
    #[error("the order id is not a UUID")]
    OrderId,
    #[error("the If-Match header is malformed")]
    IfMatch,
    #[error("the order is not at a version that If-Match names")]
    PreconditionFailed,
    #[error("the order was shipped")]
    Shipped,
    #[error("the order cannot be paid again: {reason:?}")]
    NotPayable { order_id: Uuid, reason: NotPayable },
    #[error("another request holds the key for a payment of {order_id}")]
    PaymentInFlight { order_id: Uuid },
    #[error("the id or its reference belongs to another order")]
    Conflict { order_id: Option<Uuid> },
    #[error("order not found")]
    NotFound,
    #[error("the stored status cannot be read")]
    Status(#[source] UnknownName),
    #[error("the event could not be serialised")]
    Event(#[source] serde_json::Error),
    #[error("orders wait too long; retry after {0:?}")]
    Overloaded(Duration),
    #[error(transparent)]
    NotStored(#[from] NotStored),
}

impl<E: Into<RequestError>> From<E> for Error {
    fn from(error: E) -> Self {
        Self::Request(error.into())
    }
}

impl From<InvalidDraft> for Error {
    fn from(error: InvalidDraft) -> Self {
        match error {
            InvalidDraft::PaymentMethod(InvalidPaymentMethod::CardNumber) => {
                Self::Request(RequestError::CardNumber)
            }
            other => Self::Invalid(other),
        }
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        let bad = |code, detail: String| Self::new(StatusCode::BAD_REQUEST, code, detail);
        let unprocessable =
            |code, detail: String| Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail);
        match error {
            Error::Request(error) => Self::from(error),
            Error::Shape(reason) => unprocessable("invalid_order", sentence(reason)),
            Error::Invalid(reason) => unprocessable("invalid_order", sentence(reason)),
            Error::Payment(reason) => unprocessable("invalid_payment", sentence(reason)),
            Error::Query(reason) => bad("malformed_query", sentence(reason)),
            Error::OrderId => bad(
                "malformed_order_id",
                "The order id is not a UUID. Send a UUID.".to_owned(),
            ),
            Error::IfMatch => bad(
                "malformed_if_match",
                "If-Match is malformed. Send a list of quoted entity tags, or *.".to_owned(),
            ),
            Error::PreconditionFailed => Self::new(
                StatusCode::PRECONDITION_FAILED,
                "precondition_failed",
                "The order has changed, so nothing was done. Read it again before you retry.",
            ),
            Error::Shipped => Self::new(
                StatusCode::CONFLICT,
                "order_shipped",
                "The order was shipped and can no longer be cancelled.",
            ),
            Error::NotPayable { order_id, reason } => responses::not_payable(*order_id, *reason),
            Error::PaymentInFlight { order_id } => {
                responses::about(Self::from(&RequestError::KeyInFlight), *order_id)
            }
            Error::Conflict { order_id } => responses::order_exists(*order_id),
            Error::NotFound => Self::new(
                StatusCode::NOT_FOUND,
                "order_not_found",
                "You have no order with this id.",
            ),
            Error::Overloaded(retry_after) => Self::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "overloaded",
                "Orders wait too long at the moment, so this one was not accepted. Send the same request later.",
            )
            .retry_after(*retry_after),
            Error::NotStored(NotStored::Unavailable) => Self::unavailable(RETRY_AFTER),
            Error::NotStored(NotStored::Inconsistent) | Error::Status(_) | Error::Event(_) => {
                Self::internal()
            }
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        request_error::respond(&self, Problem::from(&self))
    }
}
