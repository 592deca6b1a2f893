//! `POST /orders`: an order, once per key.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use idempotency::store::Claim;
use idempotency::{Fingerprint, http, store};
use telemetry::metric;
use uuid::Uuid;

use crate::intake::Verdict;
use crate::routes::{Error, Services, request, view};
use crate::store::intake::{KeyClaim, NewOrder};
use crate::store::orders;

pub(super) const ROUTE: &str = "POST /orders";

/// How often a request whose key expired, or was reaped, between two looks is run again.
const ROUNDS_MAX: u8 = 3;

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
    let mut order = request::prepare(Uuid::now_v7(), principal, Some(claim), body)?;
    for _ in 0..ROUNDS_MAX {
        order = match services.intake.submit(order).await? {
            Verdict::Placed(order) => {
                count("placed");
                return Ok(http::response(order.answer));
            }
            Verdict::Answered(answer) => {
                count("reference_taken");
                return Ok(http::response(answer));
            }
            Verdict::InFlight => {
                count("in_flight");
                return Err(Error::KeyInFlight);
            }
            Verdict::Known(order) => match answer_again(&services, &order).await? {
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
    let mut connection = services.pool.acquire().await?;
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
            let id = resource_id.ok_or(Error::NotFound)?;
            let made = orders::find(&mut connection, scope.principal_id, id).await?;
            let made = made.ok_or(Error::NotFound)?;
            Ok(Some(http::replay(view::of_known_order(&made))))
        }
        Some(Claim::Expired | Claim::New) => {
            store::forget_expired(&mut connection, scope).await?;
            Ok(None)
        }
        None => Ok(None),
    }
}

fn count(outcome: &'static str) {
    metrics::counter!(metric::IDEMPOTENCY_OUTCOMES, "route" => ROUTE, "outcome" => outcome)
        .increment(1);
}
