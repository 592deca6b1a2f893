//! What a decision that this service published means for a database that lost it.

use crate::domain::{PriorDecision, RejectionReason, Status};

/// A decision as the topic has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fact {
    Shipped,
    Rejected(RejectionReason),
}

impl Fact {
    pub const ALL: [Self; 3] = [
        Self::Shipped,
        Self::Rejected(RejectionReason::OutOfStock),
        Self::Rejected(RejectionReason::Cancelled),
    ];

    /// The status of a shipment with this decision.
    pub const fn status(self) -> Status {
        match self {
            Self::Shipped => Status::Shipped,
            Self::Rejected(RejectionReason::OutOfStock) => Status::Rejected,
            Self::Rejected(RejectionReason::Cancelled) => Status::Cancelled,
        }
    }

    pub const fn reason(self) -> Option<RejectionReason> {
        match self {
            Self::Shipped => None,
            Self::Rejected(reason) => Some(reason),
        }
    }
}

/// What a fact changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recollection {
    /// The database has no decision about the order: this is the decision.
    Adopt,
    /// The order was rejected, and a later attempt too.
    LaterAttempt,
    /// The database has this decision.
    Known,
    /// The database has the opposite decision. Only an operator can find out what really happened.
    Contradiction,
}

/// What a fact about this attempt means for the decision that the database has.
pub fn recollect(prior: Option<PriorDecision>, fact: Fact, attempt: i32) -> Recollection {
    let Some(prior) = prior else {
        return Recollection::Adopt;
    };
    match (prior.status, fact) {
        (Status::Shipped, Fact::Shipped) => Recollection::Known,
        (Status::Rejected | Status::Cancelled, Fact::Rejected(_)) => {
            match attempt > prior.attempt {
                true => Recollection::LaterAttempt,
                false => Recollection::Known,
            }
        }
        // `Paid` exists only inside the transaction that decides.
        (Status::Paid, _)
        | (Status::Shipped, Fact::Rejected(_))
        | (Status::Rejected | Status::Cancelled, Fact::Shipped) => Recollection::Contradiction,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fact_without_a_decision_is_adopted() {
        let expected = [Status::Shipped, Status::Rejected, Status::Cancelled];
        assert_eq!(Fact::ALL.map(Fact::status), expected);
        for fact in Fact::ALL {
            assert_eq!(recollect(None, fact, 3), Recollection::Adopt);
        }
    }

    #[test]
    fn fact_never_reverses_a_decision() {
        use Recollection::{Contradiction, Known, LaterAttempt};
        // Columns: shipped, rejected; the fact belongs to the same or to a later attempt.
        let expected = [
            (Status::Paid, [[Contradiction; 2]; 2]),
            (Status::Shipped, [[Known; 2], [Contradiction; 2]]),
            (
                Status::Rejected,
                [[Contradiction; 2], [Known, LaterAttempt]],
            ),
            (
                Status::Cancelled,
                [[Contradiction; 2], [Known, LaterAttempt]],
            ),
        ];
        assert_eq!(expected.map(|(status, _)| status), Status::ALL);
        for (status, [shipped, rejected]) in expected {
            let prior = Some(PriorDecision { status, attempt: 2 });
            for fact in Fact::ALL {
                let expected = match fact {
                    Fact::Shipped => shipped,
                    Fact::Rejected(_) => rejected,
                };
                let seen = [2, 3].map(|attempt| recollect(prior, fact, attempt));
                assert_eq!(seen, expected, "{status:?} + {fact:?}");
            }
        }
    }
}
