//! The consequence of fulfilment's rejection of an order for its payment attempt.

use crate::domain::AttemptStatus;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// No charger ever leased the attempt: void it immediately.
    Void,
    /// A charger has leased the attempt and may still be paused before its call. First cancel the key at
    /// the provider. Its answer decides between void and refund.
    CancelKey,
    /// The provider took the money: refund it.
    Refund,
    /// The attempt was declined or failed, and took no money: publish that it is voided, so that the order
    /// becomes `cancelled`.
    Close,
    /// The attempt was rejected before, or is voided.
    Nothing,
}

/// `leased`: whether any charger ever leased the attempt.
pub fn reject(status: AttemptStatus, leased: bool, rejected_before: bool) -> Consequence {
    use AttemptStatus::{Captured, Declined, Failed, Pending, Unknown, Voided};
    match (status, leased) {
        _ if rejected_before => Consequence::Nothing,
        (Pending, false) => Consequence::Void,
        (Pending | Unknown, _) => Consequence::CancelKey,
        (Captured, _) => Consequence::Refund,
        (Declined | Failed, _) => Consequence::Close,
        (Voided, _) => Consequence::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_rejection_has_a_consequence() {
        use Consequence::{CancelKey, Close, Nothing, Refund, Void};
        let expected = [
            (AttemptStatus::Pending, Void, CancelKey),
            (AttemptStatus::Unknown, CancelKey, CancelKey),
            (AttemptStatus::Captured, Refund, Refund),
            (AttemptStatus::Declined, Close, Close),
            (AttemptStatus::Voided, Nothing, Nothing),
            (AttemptStatus::Failed, Close, Close),
        ];
        assert_eq!(expected.map(|(status, ..)| status), AttemptStatus::ALL);
        for (status, never_leased, leased) in expected {
            assert_eq!(reject(status, false, false), never_leased, "{status:?}");
            assert_eq!(reject(status, true, false), leased, "{status:?}, leased");
            for leased in [false, true] {
                assert_eq!(reject(status, leased, true), Nothing, "{status:?}, again");
            }
        }
    }
}
