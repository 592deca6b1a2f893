//! From an outcome to an entry in the books, and from there to a reply.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{End, Provider, Reply};
use crate::Error;
use crate::config::Replay5xx;
use crate::domain::answer::Answer;
use crate::domain::charge::{self, Charge};
use crate::domain::fault::{Failure, Strike};
use crate::domain::method::Outcome;
use crate::domain::request::Request;
use crate::in_flight::Claim;
use crate::store::requests::{Entry, Recorded, Stored};

/// Requests that were carried out, by outcome; `captured` counts physical charges.
const CHARGES: &str = "psp_charges_total";
/// Requests that were answered from what the key had stored.
const REPLAYS: &str = "psp_replays_total";

impl Provider {
    /// Charges, or declines. Returns after the commit.
    pub(super) async fn settle(
        &self,
        request: &Request,
        outcome: Outcome,
        after: Option<Strike>,
    ) -> Result<Reply, Error> {
        let now = charge::now();
        let (charge, answer) = match outcome {
            Outcome::Captured => {
                let charge = Charge::capture(request, now);
                let answer = Answer::captured(&charge);
                (Some(charge), answer)
            }
            Outcome::Declined(decline) => (None, Answer::declined(decline)),
        };
        let answer = match after {
            Some(Strike::Fail(failure)) if self.keeps(failure) => Answer::failed(failure),
            _ => answer,
        };
        let entry = entry(request, answer, charge, now);
        self.record(request, entry, outcome.label()).await
    }

    /// Ends a request uncharged. Only a 5xx that is to be kept leaves a trace.
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
            None => self.claim(request)?,
        };
        let entry = entry(request, Answer::failed(failure), None, charge::now());
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
                metrics::counter!(CHARGES, "outcome" => outcome).increment(1);
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

fn entry(
    request: &Request,
    answer: Answer,
    charge: Option<Charge>,
    created_at: DateTime<Utc>,
) -> Entry {
    Entry {
        key: Arc::clone(&request.key),
        fingerprint: request.fingerprint,
        answer,
        charge,
        created_at,
    }
}

/// The key's answer, if this is the request that it was given to.
pub(super) fn replay(request: &Request, stored: Stored) -> Result<Reply, Error> {
    if stored.fingerprint != request.fingerprint {
        return Err(Error::KeyReused);
    }
    metrics::counter!(REPLAYS).increment(1);
    Ok(Reply::Replayed(stored.answer))
}
