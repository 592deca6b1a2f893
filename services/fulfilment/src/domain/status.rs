//! The states of a shipment, and which decision leads from which to which.

use crate::domain::Decision;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Paid for, not decided: exists only within the transaction that decides.
    Paid,
    Shipped,
    Rejected,
}

impl Status {
    pub const ALL: [Self; 3] = [Self::Paid, Self::Shipped, Self::Rejected];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Paid => "paid",
            Self::Shipped => "shipped",
            Self::Rejected => "rejected",
        }
    }
}

/// The state after the decision; `None` if it comes too late.
pub fn next(status: Status, decision: Decision) -> Option<Status> {
    match (status, decision) {
        (Status::Paid, Decision::Ship) => Some(Status::Shipped),
        (Status::Paid, Decision::OutOfStock) => Some(Status::Rejected),
        (Status::Shipped | Status::Rejected, _) => None,
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
        ];
        for (status, row) in Status::ALL.into_iter().zip(expected) {
            for (decision, after) in [Decision::Ship, Decision::OutOfStock].into_iter().zip(row) {
                assert_eq!(next(status, decision), after, "{status:?} + {decision:?}");
            }
        }
    }
}
