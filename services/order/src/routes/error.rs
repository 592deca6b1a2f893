//! Everything that can go wrong in a request, and the one place that gives it a status.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use idempotency::MalformedKey;
use service_kit::database::{self, TimedOut};
use service_kit::{Problem, body};
use thiserror::Error as ThisError;
use uuid::Uuid;

use crate::domain::{InvalidDraft, NotPayable, UnknownStatus};
use crate::intake::Unavailable;

/// How soon a client may ask again: a key in flight is a matter of one commit.
const RETRY_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug, ThisError)]
pub enum Error {
    #[error("no valid API key")]
    Unauthenticated,
    #[error(transparent)]
    Key(#[from] MalformedKey),
    #[error("the body is JSON but not an order")]
    Shape(#[source] serde_json::Error),
    #[error(transparent)]
    Body(#[from] body::Error),
    #[error(transparent)]
    Invalid(#[from] InvalidDraft),
    #[error("the body is not a payment: {0}")]
    Payment(String),
    #[error("bad query: {0}")]
    Query(&'static str),
    #[error("the order id is not a UUID")]
    OrderId,
    #[error("the If-Match header is malformed")]
    IfMatch,
    #[error("the order is not at a version that If-Match names")]
    PreconditionFailed,
    #[error("the order is on its way to the customer")]
    Shipped,
    #[error("the order may not be paid again: {reason:?}")]
    NotPayable { order_id: Uuid, reason: NotPayable },
    #[error("key reused with another request")]
    KeyReused,
    #[error("key in flight")]
    KeyInFlight,
    #[error("key in flight for a payment of {order_id}")]
    PaymentInFlight { order_id: Uuid },
    #[error("the id or its reference belongs to another order")]
    Conflict { order_id: Option<Uuid> },
    #[error("no such order")]
    NotFound,
    #[error("the store is away or too busy")]
    Unavailable,
    #[error("store")]
    Store(#[from] database::Error),
    #[error(transparent)]
    Status(#[from] UnknownStatus),
    #[error("event")]
    Event(#[source] serde_json::Error),
}

impl From<api_keys::Error> for Error {
    fn from(error: api_keys::Error) -> Self {
        match error {
            api_keys::Error::Unauthenticated => Self::Unauthenticated,
            api_keys::Error::Store(error) => Self::Store(error),
        }
    }
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

impl From<Unavailable> for Error {
    fn from(_: Unavailable) -> Self {
        Self::Unavailable
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
            Error::Shape(reason) => unprocessable("invalid_order", sentence(reason)),
            Error::Invalid(reason) => unprocessable("invalid_order", sentence(reason)),
            Error::Payment(reason) => unprocessable("invalid_payment", sentence(reason)),
            Error::Query(reason) => bad("malformed_query", sentence(reason)),
            Error::OrderId => bad("malformed_order_id", "An order id is a UUID.".to_owned()),
            Error::KeyReused => unprocessable(
                "idempotency_key_reused",
                "This key was used for another request. Mint a new key for a new one.".to_owned(),
            ),
            Error::IfMatch => bad(
                "malformed_if_match",
                "If-Match is a list of quoted entity tags, or *.".to_owned(),
            ),
            Error::PreconditionFailed => Self::new(
                StatusCode::PRECONDITION_FAILED,
                "precondition_failed",
                "The order has changed since. Nothing was done; look at it again.",
            ),
            Error::Shipped => Self::new(
                StatusCode::CONFLICT,
                "order_shipped",
                "The order is on its way to the customer and can no longer be cancelled.",
            ),
            Error::NotPayable { order_id, reason } => not_payable(*order_id, *reason),
            Error::KeyInFlight => in_flight(),
            Error::PaymentInFlight { order_id } => about(in_flight(), *order_id),
            Error::Conflict { order_id } => conflict(*order_id),
            Error::NotFound => Self::new(
                StatusCode::NOT_FOUND,
                "order_not_found",
                "You have no order with this id.",
            ),
            Error::Unavailable => Self::unavailable(RETRY_AFTER),
            Error::Store(error) if error.is_transient() => Self::unavailable(RETRY_AFTER),
            Error::Store(_) | Error::Status(_) | Error::Event(_) => Self::internal(),
        }
    }
}

/// The id, or the reference, stands for an order with other content.
pub(super) fn conflict(order_id: Option<Uuid>) -> Problem {
    let problem = Problem::new(
        StatusCode::CONFLICT,
        "order_exists",
        "This id or reference belongs to an order with other content. Nothing was created.",
    );
    match order_id {
        Some(id) => about(problem, id),
        None => problem,
    }
}

/// Why the order may not be paid by a further attempt.
pub(super) fn not_payable(order_id: Uuid, reason: NotPayable) -> Problem {
    let conflict = |code, detail| Problem::new(StatusCode::CONFLICT, code, detail);
    let problem = match reason {
        NotPayable::Open => conflict(
            "payment_open",
            "A payment of this order is under way. If it is declined, try again.",
        )
        .retry_after(RETRY_AFTER),
        NotPayable::Paid => conflict("already_paid", "This order is paid. Nothing was charged."),
        NotPayable::Cancelled => conflict(
            "order_cancelled",
            "This order was called off, or asked to be. Nothing was charged.",
        ),
    };
    about(problem, order_id)
}

fn in_flight() -> Problem {
    Problem::new(
        StatusCode::CONFLICT,
        "idempotency_key_in_flight",
        "A request with this key is being worked on. Retry with the same key.",
    )
    .retry_after(RETRY_AFTER)
}

/// The problem with the order that it is about, for the client to look at.
fn about(problem: Problem, order_id: Uuid) -> Problem {
    problem
        .with("order_id", order_id.to_string())
        .with("order_url", format!("/orders/{order_id}"))
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
