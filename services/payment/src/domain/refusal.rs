//! What fulfilment's refusal means for an attempt: no order, no money.

use crate::domain::Status;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// Nobody ever had it in hand: closed at once, for good.
    Void,
    /// A charger had it, and may still have it, paused. Its key is cancelled at the provider first;
    /// what that finds out decides between void and refund.
    Settle,
    /// The money was taken: it goes back.
    Refund,
    /// No money was taken: there is nothing to do but to say so.
    Close,
    /// It was refused before.
    Nothing,
}

/// `leased`: whether any charger ever had the attempt in hand.
pub fn refuse(status: Status, leased: bool, refused_before: bool) -> Consequence {
    match (status, leased) {
        _ if refused_before => Consequence::Nothing,
        (Status::Pending, false) => Consequence::Void,
        (Status::Pending | Status::Unknown, _) => Consequence::Settle,
        (Status::Captured, _) => Consequence::Refund,
        (Status::Declined, _) => Consequence::Close,
        (Status::Voided, _) => Consequence::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_consequence_and_a_second_refusal_none() {
        use Consequence::{Close, Nothing, Refund, Settle, Void};
        let expected = [
            (Status::Pending, Void, Settle),
            (Status::Unknown, Settle, Settle),
            (Status::Captured, Refund, Refund),
            (Status::Declined, Close, Close),
            (Status::Voided, Nothing, Nothing),
        ];
        assert_eq!(expected.map(|(status, ..)| status), Status::ALL);
        for (status, never_leased, leased) in expected {
            assert_eq!(refuse(status, false, false), never_leased, "{status:?}");
            assert_eq!(refuse(status, true, false), leased, "{status:?}, leased");
            for leased in [false, true] {
                assert_eq!(refuse(status, leased, true), Nothing, "{status:?}, again");
            }
        }
    }
}
