//! The errors that only the order API has, as `/openapi.json` describes them; `error` produces them.

#![expect(
    dead_code,
    reason = "types that are never constructed: only their schemas are used"
)]

use serde::Serialize;
use service_kit::openapi_errors::ProblemBody;
use utoipa::{IntoResponses, ToSchema};
use uuid::Uuid;

/// A problem that may name an order.
#[derive(Serialize, ToSchema)]
pub(super) struct OrderProblem {
    #[serde(flatten)]
    problem: ProblemBody,
    /// The order that conflicts with the request, if it is the caller's.
    order_id: Option<Uuid>,
    order_url: Option<String>,
}

/// `order_exists`: the id or reference belongs to an order with other content, which is named if it
/// is the caller's. `idempotency_key_in_flight`: retry with the same key.
#[derive(IntoResponses)]
#[response(
    status = 409,
    content_type = "application/problem+json",
    headers(
        ("Retry-After" = u64, description = "Seconds; only for a key in flight"),
        ("Idempotent-Replayed" = bool, description = "`true` on a replay")
    )
)]
pub(super) struct Conflict(OrderProblem);

/// `order_shipped`: too late, the order was shipped. It is unchanged.
#[derive(IntoResponses)]
#[response(status = 409, content_type = "application/problem+json")]
pub(super) struct Shipped(ProblemBody);

/// `payment_open`: the current attempt is open or its outcome is unknown; retryable, and not stored
/// under the key. `already_paid`: the order is paid, shipped or refunded. `order_cancelled`: it is
/// cancelled, or its cancellation was requested. These two are final: they are stored under the key
/// and replayed. `idempotency_key_in_flight`: retry with the same key.
#[derive(IntoResponses)]
#[response(
    status = 409,
    content_type = "application/problem+json",
    headers(
        ("Retry-After" = u64, description = "Seconds; only if it is retryable"),
        ("Idempotent-Replayed" = bool, description = "`true` on a replay")
    )
)]
pub(super) struct NotPayable(OrderProblem);

/// `precondition_failed`: the order is not at a version that `If-Match` names. Nothing was changed.
#[derive(IntoResponses)]
#[response(status = 412, content_type = "application/problem+json")]
pub(super) struct PreconditionFailed(ProblemBody);

/// `invalid_order` or `invalid_payment`: JSON, but not a valid body. `card_number`: the body has a
/// card number, which belongs to the provider only. `idempotency_key_reused`: the key belongs to
/// another request. Nothing was stored.
#[derive(IntoResponses)]
#[response(status = 422, content_type = "application/problem+json")]
pub(super) struct Unprocessable(ProblemBody);
