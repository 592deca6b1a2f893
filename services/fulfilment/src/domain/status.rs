//! The states of a shipment, and the transitions between them.

use crate::domain::{Decision, RejectionReason};
use service_kit::text_enum;

text_enum! {
    "shipment status";
    pub enum Status {
        /// Paid but not decided. Exists only inside the transaction that decides.
        Paid = "paid",
        Shipped = "shipped",
        /// Paid, but out of stock.
        Rejected = "rejected",
        /// The cancellation request arrived before the payment.
        Cancelled = "cancelled",
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
