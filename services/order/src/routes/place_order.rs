//! `POST /orders`: an order, once per key.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use idempotency::store::Claim;
use idempotency::{Fingerprint, StoredResponse, http, store};
use service_kit::database;
use sqlx::PgConnection;
use telemetry::http::SpanAttribute;
use telemetry::metric;
use uuid::Uuid;

use crate::domain::draft;
use crate::intake::Verdict;
use crate::routes::refusal::{
    Conflict, Malformed, TooLarge, Unauthenticated, Unavailable, Unprocessable,
    UnsupportedMediaType,
};
use crate::routes::request::{self, bounded};
use crate::routes::{Error, Services, view};
use crate::store::intake::{KeyClaim, NewOrder};
use crate::store::orders;

pub(super) const ROUTE: &str = "POST /orders";

/// How often a request whose key expired, or was reaped, between two looks is run again.
const ROUNDS_MAX: u8 = 3;

/// Places an order, once per key.
#[utoipa::path(
    post,
    path = "/orders",
    operation_id = "place_order",
    params((
        "Idempotency-Key" = String, Header, min_length = 1, max_length = 255,
        description = "Names this one intention: mint it once, send it with every retry. Visible \
            ASCII, bare or as a quoted structured-field string. See /idempotency-policy.",
        example = "order-7f3a"
    )),
    request_body = draft::Request,
    responses(
        (
            status = 201, description = "Placed, now or by an earlier request with this key",
            body = view::Receipt<'static>,
            headers(
                ("Location" = String, description = "URL of the order"),
                ("Idempotent-Replayed" = bool, description = "`true` if this was answered before")
            )
        ),
        (
            status = 200, description = "The reference names this order, which has the same content",
            body = view::Receipt<'static>,
            headers(
                ("Location" = String, description = "URL of the order"),
                ("Idempotent-Replayed" = bool, description = "`true` if this was answered before")
            )
        ),
        Malformed, Unauthenticated, Conflict, TooLarge, UnsupportedMediaType, Unprocessable,
        Unavailable
    ),
    security(("bearer" = []))
)]
pub(super) async fn handle(
    State(services): State<Services>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Error> {
    let principal = services.authenticator.principal(&headers).await?;
    let key = http::key(&headers)?;
    let body = request::read(&headers, body).await?;
    let salt = &principal.fingerprint_salt;
    let claim = KeyClaim {
        route: ROUTE,
        fingerprint: Fingerprint::of(salt, "POST", "/orders", &body.content_hash),
        key,
    };
    // Time-ordered ids keep the indexes' inserts on their right edge.
    let order = request::prepare(Uuid::now_v7(), principal, Some(claim), body)?;
    bounded(place(&services, order)).await
}

async fn place(services: &Services, mut order: NewOrder) -> Result<Response, Error> {
    for _ in 0..ROUNDS_MAX {
        order = match services.intake.submit(order).await? {
            Verdict::Placed(order) => {
                count("placed");
                let mut response = http::response(order.answer);
                let about = SpanAttribute("order.id", order.id.to_string());
                response.extensions_mut().insert(about);
                return Ok(response);
            }
            Verdict::Answered(answer) => {
                count("reference_taken");
                return Ok(http::response(answer));
            }
            Verdict::InFlight => {
                count("in_flight");
                return Err(Error::KeyInFlight);
            }
            Verdict::Known(order) => match answer_again(services, &order).await? {
                Some(response) => return Ok(response),
                None => order,
            },
        };
    }
    Err(Error::KeyInFlight)
}

/// The answer that the key has; `None` if the key is free again.
async fn answer_again(services: &Services, order: &NewOrder) -> Result<Option<Response>, Error> {
    let (Some(scope), Some(claim)) = (order.scope(), &order.claim) else {
        return Ok(None);
    };
    let mut connection = database::acquire(&services.pool).await?;
    match store::find(&mut connection, scope, &claim.fingerprint).await? {
        Some(Claim::Completed(answer)) => {
            count("replayed");
            Ok(Some(http::replay(answer)))
        }
        Some(Claim::Mismatch) => {
            count("mismatch");
            Err(Error::KeyReused)
        }
        Some(Claim::InFlight { .. }) => Err(Error::KeyInFlight),
        // Written by a version that this one cannot read: what was made under the key says it all.
        Some(Claim::Unreadable { resource_id }) => {
            let answer = derive_answer(&mut connection, order, resource_id).await?;
            Ok(Some(http::replay(answer)))
        }
        Some(Claim::Expired | Claim::New) => {
            store::forget_expired(&mut connection, scope).await?;
            Ok(None)
        }
        None => Ok(None),
    }
}

/// The key made an order, or met its reference taken; the tables still say which.
async fn derive_answer(
    connection: &mut PgConnection,
    order: &NewOrder,
    resource_id: Option<Uuid>,
) -> Result<StoredResponse, Error> {
    let principal = &order.principal.id;
    if let Some(id) = resource_id
        && let Some(made) = orders::find(connection, principal, id).await?
    {
        return Ok(view::of_known_order(&made));
    }
    let reference = order.draft.reference.as_deref().ok_or(Error::NotFound)?;
    let first = orders::find_by_reference(connection, principal, reference).await?;
    let first = first.ok_or(Error::NotFound)?;
    Ok(view::of_taken_reference(&first, &order.content_hash))
}

fn count(outcome: &'static str) {
    metrics::counter!(metric::IDEMPOTENCY_OUTCOMES, "route" => ROUTE, "outcome" => outcome)
        .increment(1);
}
