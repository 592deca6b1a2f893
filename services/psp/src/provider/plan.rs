//! Decides how to serve a request, before any work is done.

use money::Money;

use super::Provider;
use crate::Error;
use crate::domain::charge::{self, Charge};
use crate::domain::clock;
use crate::domain::request::{Details, Request};
use crate::domain::settlement::Processing;
use crate::domain::test_method::{CardOutcome, ChargeSpeed, Decline, TestMethod};
use crate::store::charges;
use crate::store::requests::{self, StoredResponse};

pub(super) enum Plan<'a> {
    /// The key has a stored response.
    Replay(StoredResponse),
    /// Do the work, unless the statement that records it finds a stored response.
    Run(Work<'a>),
}

pub(super) enum Work<'a> {
    Charge {
        amount: Money,
        payment_method: &'a str,
        processing: Processing,
    },
    Decline(Decline),
    Refund {
        charge: Charge,
        amount: i64,
        processing: Processing,
    },
}

impl Provider {
    pub(super) async fn plan<'a>(&self, request: &'a Request) -> Result<Plan<'a>, Error> {
        if self.needs_early_lookup(request) {
            let mut connection = self.pool.acquire().await?;
            let stored = requests::find(&mut connection, &request.key, clock::now()).await?;
            if let Some(stored) = stored {
                return Ok(Plan::Replay(stored));
            }
        }
        let work = match &request.details {
            Details::Charge {
                amount,
                payment_method,
            } => Work::of_charge(*amount, payment_method),
            Details::Refund { charge_id, amount } => {
                let mut connection = self.pool.acquire().await?;
                let charge = charges::by_id(&mut connection, *charge_id).await?;
                Work::of_refund(charge, *amount)?
            }
        };
        Ok(Plan::Run(work))
    }

    /// The statement that records an immediate charge also finds a replay. An earlier lookup is
    /// worth its round trip only if the charge is slow or a fault may apply first. A refund is
    /// checked against its charge only if its key is new, so its key is always looked up first.
    fn needs_early_lookup(&self, request: &Request) -> bool {
        match request.details {
            Details::Charge { .. } => {
                let during = request.operation().points().during;
                request.speed() == ChargeSpeed::Slow
                    || self.faults.may_apply(during, &request.reference)
            }
            Details::Refund { .. } => true,
        }
    }
}

impl<'a> Work<'a> {
    fn of_charge(amount: Money, payment_method: &'a str) -> Self {
        match TestMethod::of(payment_method).outcome {
            CardOutcome::Accepted(processing) => Self::Charge {
                amount,
                payment_method,
                processing,
            },
            CardOutcome::Declined(decline) => Self::Decline(decline),
        }
    }

    /// Checks the charge alone, and not its earlier refunds. A caller that refunds the same money
    /// twice must succeed, or the mistake would stay hidden.
    fn of_refund(charge: Option<Charge>, amount: i64) -> Result<Self, Error> {
        let charge = charge.ok_or(Error::NoSuchCharge)?;
        if !charge.has_status(charge::Status::Captured) {
            return Err(Error::ChargeNotCaptured);
        }
        if amount > charge.amount {
            return Err(Error::RefundTooLarge);
        }
        let processing = TestMethod::of(&charge.payment_method).refund;
        Ok(Self::Refund {
            charge,
            amount,
            processing,
        })
    }

    /// The metric label of this work.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Charge { processing, .. } => processing.charge_status().as_str(),
            Self::Decline(decline) => decline.code(),
            Self::Refund { processing, .. } => processing.refund_status().as_str(),
        }
    }
}
