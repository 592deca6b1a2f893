//! What becomes of the wish that an order should not ship.

use crate::domain::Status;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancellation {
    /// Money may be moving: the wish is recorded and passed on, and fulfilment decides.
    Ask,
    /// No attempt is open and no money was taken: there is nothing to undo and nobody to ask.
    AtOnce,
    /// Asked for before; what comes of it is on its way or has come.
    Repeated,
    /// Never asked for, but it does not ship anyway.
    Moot,
    /// It is on its way to the customer.
    TooLate,
}

/// What to do about the wish, by the order's state and whether the wish was recorded before.
pub fn cancel(status: Status, requested: bool) -> Cancellation {
    match (status, requested) {
        (Status::Shipped, _) => Cancellation::TooLate,
        (_, true) => Cancellation::Repeated,
        (Status::Placed | Status::Paid, false) => Cancellation::Ask,
        (Status::Declined, false) => Cancellation::AtOnce,
        (Status::Cancelled | Status::Refunded, false) => Cancellation::Moot,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_answer_to_the_first_wish_and_to_the_second() {
        use Cancellation::{Ask, AtOnce, Moot, Repeated, TooLate};
        let expected = [
            (Status::Placed, Ask, Repeated),
            (Status::Paid, Ask, Repeated),
            (Status::Shipped, TooLate, TooLate),
            (Status::Declined, AtOnce, Repeated),
            (Status::Cancelled, Moot, Repeated),
            (Status::Refunded, Moot, Repeated),
        ];
        assert_eq!(expected.map(|(status, ..)| status), Status::ALL);
        for (status, first, second) in expected {
            assert_eq!(cancel(status, false), first, "{status}");
            assert_eq!(cancel(status, true), second, "{status}");
        }
    }
}
