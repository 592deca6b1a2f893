//! The responses that are stored under a key and replayed, and the problems among them.
//!
//! Intake computes them before or inside the commit that stores them, so they live below the routes.

use axum::http::StatusCode;
use idempotency::{ContentHash, StoredResponse};
use serde::Serialize;
use service_kit::Problem;
use service_kit::request_error::RETRY_AFTER;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::domain::order::Order;
use crate::domain::{Draft, FIRST_VERSION, NotPayable, Status};

/// The body for a request that placed an order, or found it placed.
#[derive(Debug, Serialize, ToSchema)]
pub struct PlacedOrder<'a> {
    pub order_id: Uuid,
    pub status: &'a str,
    /// In the currency's minor unit.
    pub amount: i64,
    pub currency: &'a str,
    pub customer_id: &'a str,
    pub reference: Option<&'a str>,
    pub version: i32,
}

/// The body for a request that opened a further payment attempt.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenedAttempt<'a> {
    pub order_id: Uuid,
    /// 2 when an order is paid again for the first time.
    pub attempt: i32,
    /// The order's status.
    pub status: &'a str,
    pub payment_method: &'a str,
    /// In the currency's minor unit.
    pub amount: i64,
    pub currency: &'a str,
    pub version: i32,
}

/// 201 for an order that is about to be stored.
pub fn for_new_order(id: Uuid, draft: &Draft) -> StoredResponse {
    let body = PlacedOrder {
        order_id: id,
        status: Status::Placed.as_str(),
        amount: draft.total.amount(),
        currency: draft.total.currency().code(),
        customer_id: &draft.customer_id,
        reference: draft.reference.as_deref(),
        version: FIRST_VERSION,
    };
    json(StatusCode::CREATED, id, &body)
}

/// 200 for an order that exists already, as it is now.
pub fn for_known_order(order: &Order) -> StoredResponse {
    let body = PlacedOrder {
        order_id: order.id,
        status: &order.status,
        amount: order.amount,
        currency: &order.currency,
        customer_id: &order.customer_id,
        reference: order.reference.as_deref(),
        version: order.version,
    };
    json(StatusCode::OK, order.id, &body)
}

/// For a reference that already names an order: that order if the content is the same, else 409. A
/// problem carries the correlation id of the request, even if another task computes it.
pub fn for_taken_reference(
    first: &Order,
    content_hash: &ContentHash,
    correlation_id: &str,
) -> StoredResponse {
    if first.content_hash == content_hash.as_bytes() {
        return for_known_order(first);
    }
    let problem = order_exists(Some(first.id)).with("correlation_id", correlation_id);
    StoredResponse::from(&problem)
}

/// 201 for the attempt that the order is about to open.
pub fn for_new_attempt(order: &Order, payment_method: &str) -> StoredResponse {
    let body = OpenedAttempt {
        order_id: order.id,
        attempt: order.attempt + 1,
        status: Status::Placed.as_str(),
        payment_method,
        amount: order.amount,
        currency: &order.currency,
        version: order.version + 1,
    };
    json(StatusCode::CREATED, order.id, &body)
}

/// 200 for the order's current attempt, as it is now.
pub fn for_known_attempt(order: &Order) -> StoredResponse {
    let body = OpenedAttempt {
        order_id: order.id,
        attempt: order.attempt,
        status: &order.status,
        payment_method: &order.payment_method,
        amount: order.amount,
        currency: &order.currency,
        version: order.version,
    };
    json(StatusCode::OK, order.id, &body)
}

/// The id or the reference belongs to an order with other content.
pub fn order_exists(order_id: Option<Uuid>) -> Problem {
    let problem = Problem::new(
        StatusCode::CONFLICT,
        "order_exists",
        "This id or reference belongs to an order with other content. Nothing was created. \
         Use a new one for another order.",
    );
    match order_id {
        Some(id) => about(problem, id),
        None => problem,
    }
}

/// Why the order cannot be paid by a further attempt.
pub fn not_payable(order_id: Uuid, reason: NotPayable) -> Problem {
    let conflict = |code, detail| Problem::new(StatusCode::CONFLICT, code, detail);
    let problem = match reason {
        NotPayable::Open => conflict(
            "payment_open",
            "A payment of this order is in progress. If it is declined or fails, try again.",
        )
        .retry_after(RETRY_AFTER),
        NotPayable::Paid => conflict("already_paid", "This order is paid. Nothing was charged."),
        NotPayable::Cancelled => conflict(
            "order_cancelled",
            "This order is cancelled, or its cancellation was requested. Nothing was charged.",
        ),
    };
    about(problem, order_id)
}

/// Names the order, so that the client can read it.
pub fn about(problem: Problem, order_id: Uuid) -> Problem {
    problem
        .with("order_id", order_id.to_string())
        .with("order_url", url(order_id))
}

fn url(order_id: Uuid) -> String {
    format!("/orders/{order_id}")
}

fn json(status: StatusCode, order_id: Uuid, body: &impl Serialize) -> StoredResponse {
    let headers = vec![
        ("content-type".to_owned(), "application/json".to_owned()),
        ("location".to_owned(), url(order_id)),
    ];
    // Strings and numbers always serialise.
    let body = serde_json::to_vec(body).unwrap_or_default();
    StoredResponse {
        status: status.as_u16(),
        headers,
        body,
    }
}
