//! The states of a shipment, and the transitions between them.

use std::str::FromStr;

use crate::domain::{Decision, RejectionReason};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Paid but not decided. Exists only inside the transaction that decides.
    Paid,
    Shipped,
    /// Paid, but out of stock.
    Rejected,
    /// The cancellation request arrived before the payment.
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

/// Returns the state after the decision, or `None` if the decision comes too late.
pub fn next(status: Status, decision: Decision) -> Option<Status> {
    match (status, decision) {
        (Status::Paid, Decision::Ship) => Some(Status::Shipped),
        (Status::Paid, Decision::Reject(RejectionReason::OutOfStock)) => Some(Status::Rejected),
        // The first event decides, and the payment came first.
        (Status::Paid, Decision::Reject(RejectionReason::Cancelled))
        | (Status::Shipped | Status::Rejected | Status::Cancelled, _) => None,
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
    fn shipment_is_decided_once() {
        // Columns: ship, reject (out of stock), reject (cancelled).
        let expected = [
            [Some(Status::Shipped), Some(Status::Rejected), None],
            [None, None, None],
            [None, None, None],
            [None, None, None],
        ];
        for (status, row) in Status::ALL.into_iter().zip(expected) {
            for (decision, after) in Decision::ALL.into_iter().zip(row) {
                assert_eq!(next(status, decision), after, "{status:?} + {decision:?}");
            }
        }
    }

    #[test]
    fn status_names_round_trip() {
        for status in Status::ALL {
            assert_eq!(status.as_str().parse::<Status>().unwrap(), status);
        }
    }
}
