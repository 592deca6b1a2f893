//! The refusals of direct charges, as `/openapi.json` describes them; `error` makes them.

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
    #[schema(example = "urn:chargeonce:problem:payment_declined")]
    r#type: String,
    #[schema(example = "Payment Required")]
    title: String,
    #[schema(example = 402)]
    status: u16,
    /// Stable, for programs.
    #[schema(example = "payment_declined")]
    code: String,
    /// A sentence that tells a person what to do.
    #[schema(example = "The provider declined. No money was taken, and none will be.")]
    detail: String,
    /// Whether the same request, with the same key, may succeed later.
    retryable: bool,
    /// The `X-Correlation-Id` of the request that this was first said to.
    #[schema(example = "req-4711")]
    correlation_id: String,
    /// The payment that this is about, where there is one.
    payment_id: Option<Uuid>,
    payment_url: Option<String>,
    /// The provider's reason; only of a decline.
    #[schema(example = "insufficient_funds")]
    decline_code: Option<String>,
}

/// The key is missing or malformed, or the body is not JSON.
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

/// `payment_declined`: the provider took no money and never will, for the reason in `decline_code`.
/// A result: stored, and replayed. To try another card, mint a new key (and a new reference).
#[derive(IntoResponses)]
#[response(
    status = 402,
    content_type = "application/problem+json",
    headers(("Idempotent-Replayed" = bool, description = "`true` if this was answered before"))
)]
pub(super) struct Declined(ProblemBody);

/// The caller has no payment with this id.
#[derive(IntoResponses)]
#[response(status = 404, content_type = "application/problem+json")]
pub(super) struct NotFound(ProblemBody);

/// `idempotency_key_in_flight`: the outcome is not known yet; come back with the same key.
/// `payment_in_flight`: the same of the reference, under another key. `payment_exists`: the
/// reference belongs to a payment with other content, which is named; stored, and replayed.
#[derive(IntoResponses)]
#[response(
    status = 409,
    content_type = "application/problem+json",
    headers(
        ("Retry-After" = u64, description = "Seconds; only if it is retryable"),
        ("Idempotent-Replayed" = bool, description = "`true` if this was answered before")
    )
)]
pub(super) struct Conflict(ProblemBody);

/// The body is larger than 64 KiB.
#[derive(IntoResponses)]
#[response(status = 413, content_type = "application/problem+json")]
pub(super) struct TooLarge(ProblemBody);

/// The body is not sent as `application/json`.
#[derive(IntoResponses)]
#[response(status = 415, content_type = "application/problem+json")]
pub(super) struct UnsupportedMediaType(ProblemBody);

/// `invalid_payment`: JSON, but not a payment. `idempotency_key_reused`: the key belongs to another
/// request. Nothing was stored.
#[derive(IntoResponses)]
#[response(status = 422, content_type = "application/problem+json")]
pub(super) struct Unprocessable(ProblemBody);

/// The store is away or too busy, or the answer to a commit got lost. Nothing was charged without a
/// record: the same request with the same key tells.
#[derive(IntoResponses)]
#[response(
    status = 503,
    content_type = "application/problem+json",
    headers(("Retry-After" = u64, description = "Seconds"))
)]
pub(super) struct Unavailable(ProblemBody);
