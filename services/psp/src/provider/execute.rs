//! Executes planned work: from the plan to an entry in the books, and from there to a response.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::plan::Work;
use super::{CallerResponse, Interruption, Provider};
use crate::Error;
use crate::config::Replay5xx;
use crate::domain::api_response::ApiResponse;
use crate::domain::charge::Charge;
use crate::domain::clock;
use crate::domain::fault::{AppliedFault, Failure};
use crate::domain::operation::Operation;
use crate::domain::refund::Refund;
use crate::domain::request::Request;
use crate::in_flight::Claim;
use crate::outcome_counts;
use crate::store::requests::{Effect, NewRequest, Recorded, StoredResponse};

/// Requests that got the stored response of their key.
const REPLAYS: &str = "psp_replays_total";

impl Provider {
    /// Moves the money, or declines. Returns after the commit.
    pub(super) async fn execute(
        &self,
        request: &Request,
        work: Work<'_>,
        after: Option<&AppliedFault>,
    ) -> Result<CallerResponse, Error> {
        let now = clock::now();
        let outcome = work.label();
        let (effect, response) = match work {
            Work::Charge {
                amount,
                payment_method,
                processing,
            } => {
                let status = processing.charge_status();
                let charge = Charge::of(request, amount, payment_method, status, now);
                let response = ApiResponse::created(&charge);
                let settlement = processing.of_charge(now, self.settings.processing());
                (Effect::Charge(charge, settlement), response)
            }
            Work::Decline(decline) => (Effect::Nothing, ApiResponse::declined(decline)),
            Work::Refund {
                charge,
                amount,
                processing,
            } => {
                let refund = Refund::of(&charge, request, amount, processing.refund_status(), now);
                let response = ApiResponse::created(&refund);
                let settlement = processing.of_refund(now, self.settings.processing());
                (Effect::Refund(refund, settlement), response)
            }
        };
        let response = match after {
            Some(AppliedFault::Fail(failure)) if self.stores(failure) => {
                ApiResponse::failed(failure)
            }
            _ => response,
        };
        let new = new_request(request, response, effect, now);
        self.record(request, new, outcome).await
    }

    /// Ends a request that did nothing. Only a 5xx that this provider stores leaves a row.
    pub(super) async fn end_interrupted(
        &self,
        request: &Request,
        interruption: Interruption,
        claim: Option<Claim<'_>>,
    ) -> Result<CallerResponse, Error> {
        let failure = match interruption {
            Interruption::Failed(failure) if self.stores(&failure) => failure,
            interruption => return Ok(interruption.into()),
        };
        let _claim = match claim {
            Some(claim) => claim,
            None => self.claim(&request.key)?,
        };
        let response = ApiResponse::failed(&failure);
        let new = new_request(request, response, Effect::Nothing, clock::now());
        self.record(request, new, "error").await
    }

    async fn record(
        &self,
        request: &Request,
        new: NewRequest,
        outcome: &'static str,
    ) -> Result<CallerResponse, Error> {
        let response = new.response.clone();
        match self.queue.record(new).await? {
            Recorded::New => {
                outcome_counts::add(request.operation(), outcome, 1);
                Ok(CallerResponse::New(response))
            }
            Recorded::Found(stored) => replay(request, stored),
            Recorded::Contended => Err(Error::KeyInFlight),
        }
    }

    fn stores(&self, failure: &Failure) -> bool {
        self.settings.psp_replay_5xx == Replay5xx::Stored && failure.is_final()
    }
}

fn new_request(
    request: &Request,
    response: ApiResponse,
    effect: Effect,
    created_at: DateTime<Utc>,
) -> NewRequest {
    NewRequest {
        key: Arc::clone(&request.key),
        operation: request.operation(),
        fingerprint: request.fingerprint,
        response,
        effect,
        created_at,
    }
}

/// Replays the stored response if it belongs to this request. The response of a cancelled key
/// belongs to every charge.
pub(super) fn replay(request: &Request, stored: StoredResponse) -> Result<CallerResponse, Error> {
    let belongs = if stored.is_key_cancelled {
        request.operation() == Operation::Charge
    } else {
        stored.fingerprint == request.fingerprint
    };
    if !belongs {
        return Err(Error::KeyReused);
    }
    metrics::counter!(REPLAYS).increment(1);
    Ok(CallerResponse::Replayed(stored.response))
}
