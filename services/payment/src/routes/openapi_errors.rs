//! The errors of direct charges that no other service has, as `/openapi.json` describes them. The
//! module `error` produces them.

#![expect(
    dead_code,
    reason = "types that are never constructed: only their schemas are used"
)]

use serde::Serialize;
use service_kit::openapi_errors::ProblemBody;
use utoipa::{IntoResponses, ToSchema};
use uuid::Uuid;

/// A problem that may name a payment.
#[derive(Serialize, ToSchema)]
pub(super) struct PaymentProblem {
    #[serde(flatten)]
    problem: ProblemBody,
    /// The payment that this problem is about, if there is one.
    payment_id: Option<Uuid>,
    payment_url: Option<String>,
    /// The provider's reason; only for a decline.
    #[schema(example = "insufficient_funds")]
    decline_code: Option<String>,
    /// The provider's error; only for a payment that failed.
    #[schema(example = "amount_too_small")]
    failure_code: Option<String>,
}

/// `payment_declined`: the provider took no money and never will; `decline_code` says why.
/// `payment_failed`: the same after a definite error of the provider; `failure_code` says which. Both are
/// final: they are stored under the key and replayed. To try again, use a new key and a new reference.
#[derive(IntoResponses)]
#[response(
    status = 402,
    content_type = "application/problem+json",
    headers(("Idempotent-Replayed" = bool, description = "`true` on a replay"))
)]
pub(super) struct Declined(PaymentProblem);

/// `idempotency_key_in_flight`: the outcome is not known yet; retry with the same key.
/// `payment_in_flight`: a request with another key is paying this reference, and its outcome is not
/// known yet. `payment_exists`: the reference belongs to a payment with other content, which is
/// named. This is final: it is stored under the key and replayed.
#[derive(IntoResponses)]
#[response(
    status = 409,
    content_type = "application/problem+json",
    headers(
        ("Retry-After" = u64, description = "Seconds; only if it is retryable"),
        ("Idempotent-Replayed" = bool, description = "`true` on a replay")
    )
)]
pub(super) struct Conflict(PaymentProblem);

/// `invalid_payment`: JSON, but not a payment. `card_number`: the body has a card number, which
/// belongs to the provider only. `idempotency_key_reused`: the key belongs to another request. Nothing
/// was stored.
#[derive(IntoResponses)]
#[response(status = 422, content_type = "application/problem+json")]
pub(super) struct Unprocessable(ProblemBody);
