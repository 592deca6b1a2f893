//! What a request will come to, decided before any time is spent on it.

use money::Money;

use super::Provider;
use crate::Error;
use crate::domain::charge::Charge;
use crate::domain::clock;
use crate::domain::method::{Decline, Method, Outcome, Pace};
use crate::domain::request::{Ask, Request};
use crate::store::charges;
use crate::store::requests::{self, Stored};

/// The way that a request takes.
pub(super) enum Course<'a> {
    /// The key has its answer.
    Replay(Stored),
    /// There is work to do, unless the statement that does it finds that the key has an answer.
    Run(Decision<'a>),
}

pub(super) enum Decision<'a> {
    Capture {
        amount: Money,
        payment_method: &'a str,
    },
    Decline(Decline),
    Refund {
        charge: Charge,
        amount: i64,
    },
}

impl Provider {
    pub(super) async fn decide<'a>(&self, request: &'a Request) -> Result<Course<'a>, Error> {
        if self.is_worth_a_look(request) {
            let mut connection = self.pool.acquire().await?;
            let known = requests::find(&mut connection, &request.key, clock::now()).await?;
            if let Some(stored) = known {
                return Ok(Course::Replay(stored));
            }
        }
        let decision = match &request.ask {
            Ask::Charge {
                amount,
                payment_method,
            } => Decision::of_charge(*amount, payment_method),
            Ask::Refund { charge_id, amount } => {
                let mut connection = self.pool.acquire().await?;
                let charge = charges::by_id(&mut connection, *charge_id).await?;
                Decision::of_refund(charge, *amount)?
            }
        };
        Ok(Course::Run(decision))
    }

    /// A prompt charge finds out in the statement that would charge. Only where time would be spent
    /// or a fault would strike first is it worth a round trip to know a replay beforehand. A refund
    /// is refused for its charge only if its key is new, so there the key always comes first.
    fn is_worth_a_look(&self, request: &Request) -> bool {
        match request.ask {
            Ask::Charge { .. } => {
                let during = request.operation().points().during;
                request.pace() == Pace::Slow || self.faults.threaten(during, &request.reference)
            }
            Ask::Refund { .. } => true,
        }
    }
}

impl<'a> Decision<'a> {
    fn of_charge(amount: Money, payment_method: &'a str) -> Self {
        match Method::of(payment_method).outcome {
            Outcome::Captured => Self::Capture {
                amount,
                payment_method,
            },
            Outcome::Declined(decline) => Self::Decline(decline),
        }
    }

    /// Looks at this one charge and at no other refund of it: a caller that gives the same money
    /// back twice must be able to, or nobody would notice.
    fn of_refund(charge: Option<Charge>, amount: i64) -> Result<Self, Error> {
        let charge = charge.ok_or(Error::NoSuchCharge)?;
        if amount > charge.amount {
            return Err(Error::RefundTooLarge);
        }
        Ok(Self::Refund { charge, amount })
    }

    /// The label under which it is counted.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Capture { .. } => "captured",
            Self::Decline(decline) => decline.code(),
            Self::Refund { .. } => "refunded",
        }
    }
}
