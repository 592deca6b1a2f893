//! `POST /payments`: a direct charge, once per key.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use idempotency::store::CLAIM_ROUNDS_MAX;
use idempotency::{ContentHash, Fingerprint, http};
use service_kit::body::WrongMembers;
use service_kit::openapi_errors::{
    Malformed, TooLarge, Unauthenticated, Unavailable, UnsupportedMediaType,
};
use service_kit::{RequestError, body};
use telemetry::http::SpanAttribute;
use telemetry::metric;
use uuid::Uuid;

use crate::direct::{ChargeRequest, OpenResult, WaitResult};
use crate::domain::direct::DIRECT_ROUTE;
use crate::domain::{DirectCharge, direct};
use crate::responses::{self, PaymentSummary};
use crate::routes::openapi_errors::{Conflict, Declined, Unprocessable};
use crate::routes::{Error, Services, error};
use crate::waiting::Wait;

/// Takes money, once per key.
#[utoipa::path(
    post,
    path = "/payments",
    operation_id = "create_payment",
    params((
        "Idempotency-Key" = String, Header, min_length = 1, max_length = 255,
        description = "Identifies this payment: create it once and send it with every retry. Visible \
            ASCII, bare or as a quoted structured-field string. See /idempotency-policy.",
        example = "payment-7f3a"
    )),
    request_body = direct::Request,
    responses(
        (
            status = 201, description = "Captured, now or by an earlier request with this key",
            body = PaymentSummary<'static>,
            headers(
                ("Location" = String, description = "URL of the payment"),
                ("Idempotent-Replayed" = bool, description = "`true` on a replay")
            )
        ),
        (
            status = 200,
            description = "The reference already belongs to this payment with the same content, \
                and it is settled: `captured`, or `declined` or `failed` with its code. This request charged \
                nothing",
            body = PaymentSummary<'static>,
            headers(
                ("Location" = String, description = "URL of the payment"),
                ("Idempotent-Replayed" = bool, description = "`true` on a replay")
            )
        ),
        (
            status = 202,
            description = "Stored, and the outcome is not known yet: `pending` or `unknown`. It \
                will be charged at most once. Poll its URL, or send the same request with the \
                same key: it returns the outcome once that is known",
            body = PaymentSummary<'static>,
            headers(
                ("Location" = String, description = "URL of the payment"),
                ("Retry-After" = u64, description = "Seconds")
            )
        ),
        Malformed, Unauthenticated, Declined, Conflict, TooLarge, UnsupportedMediaType,
        Unprocessable, Unavailable
    ),
    security(("bearer" = []))
)]
pub(super) async fn handle(
    State(services): State<Services>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let request = parse(&services, &headers, body).await?;
    for _ in 0..CLAIM_ROUNDS_MAX {
        let opened = services.direct_charges.open(&request).await?;
        count(&opened);
        let response = match opened {
            OpenResult::New(wait) => wait_for_outcome(&services, &request, wait).await?,
            OpenResult::ReferenceTaken(response) => http::response(response),
            OpenResult::Replayed(response) => http::replay(response),
            OpenResult::Mismatch => return Err(RequestError::KeyReused.into()),
            OpenResult::InFlight { payment_id } => return Err(Error::KeyInFlight { payment_id }),
            OpenResult::ReferenceInFlight { payment_id } => {
                return Err(Error::PaymentInFlight { payment_id });
            }
            OpenResult::Freed => continue,
        };
        return Ok(response);
    }
    Err(Error::KeyInFlight { payment_id: None })
}

async fn parse(
    services: &Services,
    headers: &HeaderMap,
    body: Body,
) -> Result<ChargeRequest, Error> {
    let principal = services.authenticator.principal(headers).await?;
    let key = http::key(headers)?;
    let body = body::read_json(headers, body).await?;
    let content_hash = ContentHash::of(&body);
    let salt = &principal.fingerprint_salt;
    let request: direct::Request = body::decode(body).map_err(|error| match error {
        WrongMembers::Shape(reason) => Error::Shape(reason),
        WrongMembers::CardNumber => RequestError::CardNumber.into(),
    })?;
    Ok(ChargeRequest {
        // Ids are ordered by time, so inserts go to the right edge of the indexes.
        id: Uuid::now_v7(),
        charge: DirectCharge::check(request)?,
        fingerprint: Fingerprint::of(salt, "POST", "/payments", &content_hash),
        principal,
        key,
        content_hash,
    })
}

/// The response to the first request: the outcome, or 202 if it takes longer. The 202 is not stored.
async fn wait_for_outcome(
    services: &Services,
    request: &ChargeRequest,
    wait: Wait,
) -> Result<Response, Error> {
    let waited = services.direct_charges.wait_for_outcome(request, wait);
    let mut response = match waited.await? {
        WaitResult::Settled(response) => http::response(response),
        WaitResult::StillOpen(payment) => {
            let headers = [
                (header::LOCATION, responses::payment_url(payment.id)),
                (
                    header::RETRY_AFTER,
                    error::RETRY_AFTER.as_secs().to_string(),
                ),
            ];
            let summary = Json(PaymentSummary::from(&*payment));
            (StatusCode::ACCEPTED, headers, summary).into_response()
        }
    };
    // The charger's span has the same attribute.
    let about = SpanAttribute("order.id", request.id.to_string());
    response.extensions_mut().insert(about);
    Ok(response)
}

fn count(opened: &OpenResult) {
    let outcome = match opened {
        OpenResult::New(_) => "placed",
        OpenResult::ReferenceTaken(_) => "reference_taken",
        OpenResult::Replayed(_) => "replayed",
        OpenResult::Mismatch => "mismatch",
        OpenResult::InFlight { .. } | OpenResult::ReferenceInFlight { .. } => "in_flight",
        OpenResult::Freed => return,
    };
    metrics::counter!(metric::IDEMPOTENCY_OUTCOMES, "route" => DIRECT_ROUTE, "outcome" => outcome)
        .increment(1);
}
