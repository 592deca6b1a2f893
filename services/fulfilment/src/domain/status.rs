//! The states of a shipment, and which decision leads from which to which.

use std::str::FromStr;

use crate::domain::Decision;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Paid for, not decided: exists only within the transaction that decides.
    Paid,
    Shipped,
    /// Paid for, but not in stock.
    Rejected,
    /// Called off before it was paid for, as far as is known here.
    Cancelled,
}

impl Status {
    pub const ALL: [Self; 4] = [Self::Paid, Self::Shipped, Self::Rejected, Self::Cancelled];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Paid => "paid",
            Self::Shipped => "shipped",
            Self::Rejected => "rejected",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The state after the decision; `None` if it comes too late.
pub fn next(status: Status, decision: Decision) -> Option<Status> {
    match (status, decision) {
        (Status::Paid, Decision::Ship) => Some(Status::Shipped),
        (Status::Paid, Decision::OutOfStock) => Some(Status::Rejected),
        (Status::Shipped | Status::Rejected | Status::Cancelled, _) => None,
    }
}

#[derive(Debug, thiserror::Error)]
#[error("unknown shipment status {0:?}")]
pub struct UnknownStatus(String);

impl FromStr for Status {
    type Err = UnknownStatus;

    fn from_str(name: &str) -> Result<Self, UnknownStatus> {
        Self::ALL
            .into_iter()
            .find(|status| status.as_str() == name)
            .ok_or_else(|| UnknownStatus(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shipment_is_decided_once() {
        let expected = [
            [Some(Status::Shipped), Some(Status::Rejected)],
            [None, None],
            [None, None],
            [None, None],
        ];
        for (status, row) in Status::ALL.into_iter().zip(expected) {
            for (decision, after) in [Decision::Ship, Decision::OutOfStock].into_iter().zip(row) {
                assert_eq!(next(status, decision), after, "{status:?} + {decision:?}");
            }
        }
    }

    #[test]
    fn names_survive_the_round_trip() {
        for status in Status::ALL {
            assert_eq!(status.as_str().parse::<Status>().unwrap(), status);
        }
    }
}
