//! `POST /payments`: a direct charge, once per key.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use idempotency::{ContentHash, Fingerprint, http};
use service_kit::openapi_errors::{
    Malformed, TooLarge, Unauthenticated, Unavailable, UnsupportedMediaType,
};
use service_kit::{RequestError, body};
use telemetry::http::SpanAttribute;
use telemetry::metric;
use uuid::Uuid;

use crate::direct::{Ask, Opened, Outcome};
use crate::domain::{DirectCharge, direct};
use crate::outcome::DIRECT_ROUTE;
use crate::routes::openapi_errors::{Conflict, Declined, Unprocessable};
use crate::routes::view::{self, Receipt};
use crate::routes::{Error, Services, error};
use crate::waiting::Wait;

/// How often a request whose key expired, or was reaped, between two looks is run again.
const ROUNDS_MAX: u8 = 3;

/// Takes money, once per key.
#[utoipa::path(
    post,
    path = "/payments",
    operation_id = "create_payment",
    params((
        "Idempotency-Key" = String, Header, min_length = 1, max_length = 255,
        description = "Names this one intention: mint it once, send it with every retry. Visible \
            ASCII, bare or as a quoted structured-field string. See /idempotency-policy.",
        example = "payment-7f3a"
    )),
    request_body = direct::Request,
    responses(
        (
            status = 201, description = "Captured, now or by an earlier request with this key",
            body = Receipt<'static>,
            headers(
                ("Location" = String, description = "URL of the payment"),
                ("Idempotent-Replayed" = bool, description = "`true` if this was answered before")
            )
        ),
        (
            status = 200,
            description = "The reference names this payment, which has the same content and is \
                settled: `captured`, or `declined` with its code. Nothing was charged for this \
                request",
            body = Receipt<'static>,
            headers(
                ("Location" = String, description = "URL of the payment"),
                ("Idempotent-Replayed" = bool, description = "`true` if this was answered before")
            )
        ),
        (
            status = 202,
            description = "Stored, and the outcome is not known yet: `pending` or `unknown`. It \
                will be charged at most once. Look at its URL, or send the same request with the \
                same key: it is answered with the outcome once that is known",
            body = Receipt<'static>,
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
    let ask = understand(&services, &headers, body).await?;
    for _ in 0..ROUNDS_MAX {
        let opened = services.desk.open(&ask).await?;
        count(&opened);
        let response = match opened {
            Opened::New(wait) => outcome(&services, &ask, wait).await?,
            Opened::Answered(answer) => http::response(answer),
            Opened::Replayed(answer) => http::replay(answer),
            Opened::Mismatch => return Err(RequestError::KeyReused.into()),
            Opened::InFlight { payment_id } => return Err(Error::KeyInFlight { payment_id }),
            Opened::ReferenceInFlight { payment_id } => {
                return Err(Error::PaymentInFlight { payment_id });
            }
            Opened::Freed => continue,
        };
        return Ok(response);
    }
    Err(Error::KeyInFlight { payment_id: None })
}

async fn understand(services: &Services, headers: &HeaderMap, body: Body) -> Result<Ask, Error> {
    let principal = services.authenticator.principal(headers).await?;
    let key = http::key(headers)?;
    let body = body::read_json(headers, body).await?;
    let content_hash = ContentHash::of(&body);
    let salt = &principal.fingerprint_salt;
    let request: direct::Request = serde_json::from_value(body).map_err(Error::Shape)?;
    Ok(Ask {
        // Time-ordered ids keep the indexes' inserts on their right edge.
        id: Uuid::now_v7(),
        charge: DirectCharge::check(request)?,
        fingerprint: Fingerprint::of(salt, "POST", "/payments", &content_hash),
        principal,
        key,
        content_hash,
    })
}

/// What the first caller is told: the outcome, or that it takes longer. The latter is not stored.
async fn outcome(services: &Services, ask: &Ask, wait: Wait) -> Result<Response, Error> {
    let mut response = match services.desk.outcome(ask, wait).await? {
        Outcome::Settled(answer) => http::response(answer),
        Outcome::Open(payment) => {
            let headers = [
                (header::LOCATION, view::url(payment.id)),
                (
                    header::RETRY_AFTER,
                    error::RETRY_AFTER.as_secs().to_string(),
                ),
            ];
            let receipt = Json(Receipt::from(&*payment));
            (StatusCode::ACCEPTED, headers, receipt).into_response()
        }
    };
    // The name that the charger's span has for it.
    let about = SpanAttribute("order.id", ask.id.to_string());
    response.extensions_mut().insert(about);
    Ok(response)
}

fn count(opened: &Opened) {
    let outcome = match opened {
        Opened::New(_) => "placed",
        Opened::Answered(_) => "reference_taken",
        Opened::Replayed(_) => "replayed",
        Opened::Mismatch => "mismatch",
        Opened::InFlight { .. } | Opened::ReferenceInFlight { .. } => "in_flight",
        Opened::Freed => return,
    };
    metrics::counter!(metric::IDEMPOTENCY_OUTCOMES, "route" => DIRECT_ROUTE, "outcome" => outcome)
        .increment(1);
}
