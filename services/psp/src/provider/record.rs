//! From a decision to an entry in the books, and from there to a reply.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::decide::Decision;
use super::{End, Provider, Reply};
use crate::Error;
use crate::config::Replay5xx;
use crate::domain::answer::Answer;
use crate::domain::charge::Charge;
use crate::domain::clock;
use crate::domain::fault::{Failure, Strike};
use crate::domain::operation::Operation;
use crate::domain::refund::Refund;
use crate::domain::request::Request;
use crate::in_flight::Claim;
use crate::store::requests::{Effect, Entry, Recorded, Stored};

/// Requests that were carried out, by outcome; `captured` counts physical charges.
const CHARGES: &str = "psp_charges_total";
/// The same for refunds; `refunded` counts money given back.
const REFUNDS: &str = "psp_refunds_total";
/// Requests that were answered from what the key had stored.
const REPLAYS: &str = "psp_replays_total";

impl Provider {
    /// Moves the money, or declines. Returns after the commit.
    pub(super) async fn settle(
        &self,
        request: &Request,
        decision: Decision<'_>,
        after: Option<Strike>,
    ) -> Result<Reply, Error> {
        let now = clock::now();
        let outcome = decision.label();
        let (effect, answer) = match decision {
            Decision::Capture {
                amount,
                payment_method,
            } => {
                let charge = Charge::capture(request, amount, payment_method, now);
                let answer = Answer::created(&charge);
                (Effect::Charge(charge), answer)
            }
            Decision::Decline(decline) => (Effect::Nothing, Answer::declined(decline)),
            Decision::Refund { charge, amount } => {
                let refund = Refund::of(&charge, request, amount, now);
                let answer = Answer::created(&refund);
                (Effect::Refund(refund), answer)
            }
        };
        let answer = match after {
            Some(Strike::Fail(failure)) if self.keeps(failure) => Answer::failed(failure),
            _ => answer,
        };
        let entry = entry(request, answer, effect, now);
        self.record(request, entry, outcome).await
    }

    /// Ends a request with nothing done. Only a 5xx that is to be kept leaves a trace.
    pub(super) async fn stop(
        &self,
        request: &Request,
        end: End,
        claim: Option<Claim<'_>>,
    ) -> Result<Reply, Error> {
        let failure = match end {
            End::Failed(failure) if self.keeps(failure) => failure,
            end => return Ok(end.into()),
        };
        let _claim = match claim {
            Some(claim) => claim,
            None => self.claim(&request.key)?,
        };
        let answer = Answer::failed(failure);
        let entry = entry(request, answer, Effect::Nothing, clock::now());
        self.record(request, entry, "failed").await
    }

    async fn record(
        &self,
        request: &Request,
        entry: Entry,
        outcome: &'static str,
    ) -> Result<Reply, Error> {
        let answer = entry.answer.clone();
        match self.desk.record(entry).await? {
            Recorded::New => {
                count(request.operation(), outcome);
                Ok(Reply::Answered(answer))
            }
            Recorded::Found(stored) => replay(request, stored),
            Recorded::Contended => Err(Error::KeyInFlight),
        }
    }

    fn keeps(&self, failure: Failure) -> bool {
        self.settings.psp_replay_5xx == Replay5xx::Stored && failure.is_final()
    }
}

fn entry(request: &Request, answer: Answer, effect: Effect, created_at: DateTime<Utc>) -> Entry {
    Entry {
        key: Arc::clone(&request.key),
        operation: request.operation(),
        fingerprint: request.fingerprint,
        answer,
        effect,
        created_at,
    }
}

/// The key's answer, if this is the request that it was given to, or a charge that came after its
/// key was burnt.
pub(super) fn replay(request: &Request, stored: Stored) -> Result<Reply, Error> {
    let fits = if stored.is_burnt {
        request.operation() == Operation::Charge
    } else {
        stored.fingerprint == request.fingerprint
    };
    if !fits {
        return Err(Error::KeyReused);
    }
    metrics::counter!(REPLAYS).increment(1);
    Ok(Reply::Replayed(stored.answer))
}

fn count(operation: Operation, outcome: &'static str) {
    let name = match operation {
        Operation::Charge => CHARGES,
        Operation::Refund => REFUNDS,
    };
    metrics::counter!(name, "outcome" => outcome).increment(1);
}
