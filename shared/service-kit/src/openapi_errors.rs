//! The shared errors as `/openapi.json` describes them; [`crate::request_error`] produces them.
//!
//! The types exist for their schemas and are never constructed. A service adds the responses whose
//! codes are its own, and extends [`ProblemBody`] where a problem has more members.

#![expect(
    dead_code,
    reason = "types that are never constructed: only their schemas are used"
)]

use serde::Serialize;
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{IntoResponses, Modify, ToSchema};

/// Problem details as in RFC 9457.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    #[schema(example = "urn:chargeonce:problem:idempotency_key_in_flight")]
    r#type: String,
    #[schema(example = "Conflict")]
    title: String,
    #[schema(example = 409)]
    status: u16,
    /// Stable. Programs should branch on this member.
    #[schema(example = "idempotency_key_in_flight")]
    code: String,
    /// One sentence for a person: what happened and what to do.
    #[schema(example = "Another request with this key is in progress. Retry with the same key.")]
    detail: String,
    /// Whether the same request, with the same key, may succeed later.
    retryable: bool,
    /// The `X-Correlation-Id` of the request that first got this problem.
    #[schema(example = "req-4711")]
    correlation_id: String,
}

/// A part of the request is malformed: the key, the body, an id, the query or a condition. A body in
/// which an object has the same member twice is malformed too.
#[derive(IntoResponses)]
#[response(status = 400, content_type = "application/problem+json")]
pub struct Malformed(ProblemBody);

/// No valid API key.
#[derive(IntoResponses)]
#[response(
    status = 401,
    content_type = "application/problem+json",
    headers(("WWW-Authenticate" = String, description = "`Bearer`"))
)]
pub struct Unauthenticated(ProblemBody);

/// The caller has no resource with this id.
#[derive(IntoResponses)]
#[response(status = 404, content_type = "application/problem+json")]
pub struct NotFound(ProblemBody);

/// The body is larger than 64 KiB.
#[derive(IntoResponses)]
#[response(status = 413, content_type = "application/problem+json")]
pub struct TooLarge(ProblemBody);

/// The content type is not `application/json`.
#[derive(IntoResponses)]
#[response(status = 415, content_type = "application/problem+json")]
pub struct UnsupportedMediaType(ProblemBody);

/// The store is unreachable or too busy, or its response was lost. Retry the same request, with the
/// same key if it has one: it is done at most once.
#[derive(IntoResponses)]
#[response(
    status = 503,
    content_type = "application/problem+json",
    headers(("Retry-After" = u64, description = "Seconds"))
)]
pub struct Unavailable(ProblemBody);

/// Adds the security scheme `bearer`, which the operations name.
pub struct BearerScheme;

impl Modify for BearerScheme {
    fn modify(&self, document: &mut OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some(
                "An API key. It identifies the principal, which sees only its own resources.",
            ))
            .build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
    }
}
