//! How the order service handles a cancellation request.

use crate::domain::Status;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancellation {
    /// An attempt is open or money was taken: record the request and let fulfilment decide.
    AskFulfilment,
    /// No attempt is open and no money was taken: the order is cancelled immediately.
    Immediate,
    /// Requested before: nothing to record.
    AlreadyRequested,
    /// Not requested before, but the order will not ship anyway: nothing to record.
    NothingToCancel,
    /// The order was shipped.
    TooLate,
}

/// How to handle a cancellation request. `requested`: whether the order already has one.
pub fn cancel(status: Status, requested: bool) -> Cancellation {
    match (status, requested) {
        (Status::Shipped, _) => Cancellation::TooLate,
        (_, true) => Cancellation::AlreadyRequested,
        (Status::Placed | Status::Paid, false) => Cancellation::AskFulfilment,
        (Status::Declined | Status::Failed, false) => Cancellation::Immediate,
        (Status::Cancelled | Status::Refunded, false) => Cancellation::NothingToCancel,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_second_request_are_decided_for_every_status() {
        use Cancellation::{AlreadyRequested, AskFulfilment, Immediate, NothingToCancel, TooLate};
        let expected = [
            (Status::Placed, AskFulfilment, AlreadyRequested),
            (Status::Paid, AskFulfilment, AlreadyRequested),
            (Status::Shipped, TooLate, TooLate),
            (Status::Declined, Immediate, AlreadyRequested),
            (Status::Failed, Immediate, AlreadyRequested),
            (Status::Cancelled, NothingToCancel, AlreadyRequested),
            (Status::Refunded, NothingToCancel, AlreadyRequested),
        ];
        assert_eq!(expected.map(|(status, ..)| status), Status::ALL);
        for (status, first, second) in expected {
            assert_eq!(cancel(status, false), first, "{status}");
            assert_eq!(cancel(status, true), second, "{status}");
        }
    }
}
