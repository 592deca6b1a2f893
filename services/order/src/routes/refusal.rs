//! The refusals that several routes share, as `/openapi.json` describes them; `error` makes them.

#![expect(
    dead_code,
    reason = "types that are never built: only their schemas are used"
)]

use utoipa::{IntoResponses, ToSchema};
use uuid::Uuid;

/// Problem details as of RFC 9457.
#[derive(ToSchema)]
#[schema(as = Problem)]
pub(super) struct ProblemBody {
    #[schema(example = "urn:chargeonce:problem:idempotency_key_in_flight")]
    r#type: String,
    #[schema(example = "Conflict")]
    title: String,
    #[schema(example = 409)]
    status: u16,
    /// Stable, for programs.
    #[schema(example = "idempotency_key_in_flight")]
    code: String,
    /// A sentence that tells a person what to do.
    #[schema(example = "A request with this key is being worked on. Retry with the same key.")]
    detail: String,
    /// Whether the same request, with the same key, may succeed later.
    retryable: bool,
    /// The `X-Correlation-Id` of the request that this was first said to.
    #[schema(example = "req-4711")]
    correlation_id: String,
    /// The order that stands in the way, where there is one.
    order_id: Option<Uuid>,
    order_url: Option<String>,
}

/// A part of the request cannot be read: the key, the JSON, the id, the query or `If-Match`.
#[derive(IntoResponses)]
#[response(status = 400, content_type = "application/problem+json")]
pub(super) struct Malformed(ProblemBody);

/// No valid API key.
#[derive(IntoResponses)]
#[response(
    status = 401,
    content_type = "application/problem+json",
    headers(("WWW-Authenticate" = String, description = "`Bearer`"))
)]
pub(super) struct Unauthenticated(ProblemBody);

/// The caller has no order with this id.
#[derive(IntoResponses)]
#[response(status = 404, content_type = "application/problem+json")]
pub(super) struct NotFound(ProblemBody);

/// `order_exists`: the id or reference belongs to an order with other content, which is named if it
/// is the caller's. `idempotency_key_in_flight`: come back with the same key.
#[derive(IntoResponses)]
#[response(
    status = 409,
    content_type = "application/problem+json",
    headers(
        ("Retry-After" = u64, description = "Seconds; only with a key in flight"),
        ("Idempotent-Replayed" = bool, description = "`true` if this was answered before")
    )
)]
pub(super) struct Conflict(ProblemBody);

/// `order_shipped`: too late, it is on its way to the customer. The order is as it was.
#[derive(IntoResponses)]
#[response(status = 409, content_type = "application/problem+json")]
pub(super) struct Shipped(ProblemBody);

/// `payment_open`: the attempt before is open or its outcome not known yet; retryable, and not
/// stored under the key. `already_paid`: the order is paid, shipped or refunded. `order_cancelled`:
/// it was called off, or asked to be. These two are results: stored, and replayed.
/// `idempotency_key_in_flight`: come back with the same key.
#[derive(IntoResponses)]
#[response(
    status = 409,
    content_type = "application/problem+json",
    headers(
        ("Retry-After" = u64, description = "Seconds; only if it is retryable"),
        ("Idempotent-Replayed" = bool, description = "`true` if this was answered before")
    )
)]
pub(super) struct NotPayable(ProblemBody);

/// `precondition_failed`: the order is not at a version that `If-Match` names. Nothing happened.
#[derive(IntoResponses)]
#[response(status = 412, content_type = "application/problem+json")]
pub(super) struct PreconditionFailed(ProblemBody);

/// The body is larger than 64 KiB.
#[derive(IntoResponses)]
#[response(status = 413, content_type = "application/problem+json")]
pub(super) struct TooLarge(ProblemBody);

/// The body is not sent as `application/json`.
#[derive(IntoResponses)]
#[response(status = 415, content_type = "application/problem+json")]
pub(super) struct UnsupportedMediaType(ProblemBody);

/// `invalid_order` or `invalid_payment`: JSON, but not what is asked for. `idempotency_key_reused`:
/// the key belongs to another request. Nothing was stored.
#[derive(IntoResponses)]
#[response(status = 422, content_type = "application/problem+json")]
pub(super) struct Unprocessable(ProblemBody);

/// The store is away or too busy; the same request may be sent again.
#[derive(IntoResponses)]
#[response(
    status = 503,
    content_type = "application/problem+json",
    headers(("Retry-After" = u64, description = "Seconds"))
)]
pub(super) struct Unavailable(ProblemBody);
