//! `POST /orders`: places an order, once per key.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use idempotency::store::{CLAIM_ROUNDS_MAX, Claim};
use idempotency::{Fingerprint, StoredResponse, http, store};
use service_kit::RequestError;
use service_kit::database::{self, Inconsistent};
use service_kit::openapi_errors::{
    Malformed, TooLarge, Unauthenticated, Unavailable, UnsupportedMediaType,
};
use sqlx::PgConnection;
use telemetry::http::SpanAttribute;
use telemetry::metric;
use uuid::Uuid;

use crate::domain::admission::Admittance;
use crate::domain::draft;
use crate::responses::{self, PlacedOrder};
use crate::routes::openapi_errors::{Conflict, Unprocessable};
use crate::routes::request::{self, bounded};
use crate::routes::{Error, Services};
use crate::store::intake::{KeyClaim, NewOrder, Placement};
use crate::store::orders;

pub(super) const ROUTE: &str = "POST /orders";

/// Places an order, once per key.
#[utoipa::path(
    post,
    path = "/orders",
    operation_id = "place_order",
    params((
        "Idempotency-Key" = String, Header, min_length = 1, max_length = 255,
        description = "Identifies this order: create it once and send it with every retry. Visible \
            ASCII, bare or as a quoted structured-field string. See /idempotency-policy.",
        example = "order-7f3a"
    )),
    request_body = draft::Request,
    responses(
        (
            status = 201, description = "Placed, now or by an earlier request with this key",
            body = PlacedOrder<'static>,
            headers(
                ("Location" = String, description = "URL of the order"),
                ("Idempotent-Replayed" = bool, description = "`true` on a replay")
            )
        ),
        (
            status = 200, description = "The reference names this order, which has the same content",
            body = PlacedOrder<'static>,
            headers(
                ("Location" = String, description = "URL of the order"),
                ("Idempotent-Replayed" = bool, description = "`true` on a replay")
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
    // Time-ordered ids make the indexes grow at their right edge.
    let order = request::prepare(Uuid::now_v7(), principal, Some(claim), body)?;
    let order = Arc::new(order);
    let admittance = services.admission.admit(&order.principal.id);
    let (response, is_new) = bounded(place(&services, &order, admittance)).await?;
    if is_new {
        request::slow_down(&services, &order, admittance).await;
    }
    Ok(response)
}

/// Returns the response, and whether the order is new.
async fn place(
    services: &Services,
    order: &Arc<NewOrder>,
    admittance: Admittance,
) -> Result<(Response, bool), Error> {
    if admittance == Admittance::Shed {
        let replayed = replay(services, order).await?;
        return match replayed {
            Some(response) => Ok((response, false)),
            None => Err(request::overloaded(services)),
        };
    }
    for _ in 0..CLAIM_ROUNDS_MAX {
        match services.intake.submit(order.clone()).await? {
            Placement::Placed => {
                count("placed");
                let mut response = http::response(order.response.clone());
                let about = SpanAttribute("order.id", order.id.to_string());
                response.extensions_mut().insert(about);
                return Ok((response, true));
            }
            Placement::ReferenceTaken(response) => {
                count("reference_taken");
                return Ok((http::response(response), false));
            }
            Placement::InFlight => {
                count("in_flight");
                return Err(RequestError::KeyInFlight.into());
            }
            Placement::Known => {
                if let Some(response) = replay(services, order).await? {
                    return Ok((response, false));
                }
            }
        }
    }
    Err(RequestError::KeyInFlight.into())
}

/// The response that is stored under the key; `None` if the key is free again.
async fn replay(services: &Services, order: &NewOrder) -> Result<Option<Response>, Error> {
    let (Some(scope), Some(claim)) = (order.scope(), &order.claim) else {
        return Err(Inconsistent::new("POST /orders without a key").into());
    };
    let mut connection = database::acquire(&services.pool).await?;
    match store::find(&mut connection, scope, &claim.fingerprint).await? {
        Some(Claim::Completed(response)) => {
            count("replayed");
            Ok(Some(http::replay(response)))
        }
        Some(Claim::Mismatch) => {
            count("mismatch");
            Err(RequestError::KeyReused.into())
        }
        Some(Claim::InFlight { .. }) => Err(RequestError::KeyInFlight.into()),
        // A newer version of the service stored the response in a format that this one cannot read.
        // The tables have everything that the response needs.
        Some(Claim::Unreadable { resource_id }) => {
            let response = derive_response(&mut connection, order, resource_id).await?;
            Ok(Some(http::replay(response)))
        }
        Some(Claim::Expired) => {
            store::forget_expired(&mut connection, scope).await?;
            Ok(None)
        }
        Some(Claim::New) => Err(Inconsistent::new("a lookup claimed the key").into()),
        // The key expired and was deleted between the two reads.
        None => Ok(None),
    }
}

/// Builds the response from the tables. The request with this key either created an order or found
/// its reference taken.
async fn derive_response(
    connection: &mut PgConnection,
    order: &NewOrder,
    resource_id: Option<Uuid>,
) -> Result<StoredResponse, Error> {
    let principal = &order.principal.id;
    if let Some(id) = resource_id
        && let Some(created) = orders::find(connection, principal, id).await?
    {
        return Ok(responses::for_known_order(&created));
    }
    let missing = || Inconsistent::new("a used key has neither an order nor a taken reference");
    let reference = order.draft.reference.as_deref().ok_or_else(missing)?;
    let first = orders::find_by_reference(connection, principal, reference).await?;
    let first = first.ok_or_else(missing)?;
    let correlation_id = &order.event.correlation_id;
    Ok(responses::for_taken_reference(
        &first,
        &order.content_hash,
        correlation_id,
    ))
}

fn count(outcome: &'static str) {
    metrics::counter!(metric::IDEMPOTENCY_OUTCOMES, "route" => ROUTE, "outcome" => outcome)
        .increment(1);
}
