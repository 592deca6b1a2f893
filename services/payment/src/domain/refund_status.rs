//! The states of a refund, and the transitions between them.

use crate::domain::ProviderAnswer;
use service_kit::text_enum;

text_enum! {
    "refund status";
    pub enum RefundStatus {
        /// Stored, and no result of a try is recorded yet.
        Pending = "pending",
        /// At least one try ended without an answer, so the provider may have returned the money.
        Unknown = "unknown",
        Refunded = "refunded",
    }
}

impl RefundStatus {
    /// Whether the refund has no outcome yet. Only an open refund is leased.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Unknown)
    }

    /// The state of a refund when it is leased. The rule is the same as for attempts.
    pub const fn leased(is_first_try: bool) -> Self {
        if is_first_try {
            Self::Pending
        } else {
            Self::Unknown
        }
    }

    /// The state after the provider's answer; `None` if the answer changes nothing. A refund has no
    /// definite failure: it is tried until the provider confirms it.
    pub fn next(self, answer: &ProviderAnswer) -> Option<Self> {
        match (self, answer) {
            (Self::Refunded, _) => None,
            (_, ProviderAnswer::Refunded { .. }) => Some(Self::Refunded),
            (Self::Pending, ProviderAnswer::Unknown { .. } | ProviderAnswer::Absent) => {
                Some(Self::Unknown)
            }
            (Self::Unknown, ProviderAnswer::Unknown { .. } | ProviderAnswer::Absent) => None,
            // Answers about attempts do not concern refunds.
            (
                _,
                ProviderAnswer::Captured { .. }
                | ProviderAnswer::Declined { .. }
                | ProviderAnswer::Cancelled,
            ) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::provider_answer::tests::one_of_each;

    #[test]
    fn only_a_confirmation_settles_open_refunds() {
        let (unknown, refunded) = (Some(RefundStatus::Unknown), Some(RefundStatus::Refunded));
        // The order of the answers: captured, declined, cancelled, absent, unknown, refunded.
        let expected = [
            [None, None, None, unknown, unknown, refunded],
            [None, None, None, None, None, refunded],
            [None; 6],
        ];
        for (status, row) in RefundStatus::ALL.into_iter().zip(expected) {
            for (answer, after) in one_of_each().iter().zip(row) {
                assert_eq!(status.next(answer), after, "{status:?} + {answer:?}");
            }
        }
    }

    #[test]
    fn every_refund_but_a_refunded_one_is_open() {
        assert_eq!(
            RefundStatus::ALL.map(RefundStatus::is_open),
            [true, true, false]
        );
        for is_first_try in [true, false] {
            assert!(RefundStatus::leased(is_first_try).is_open());
        }
    }

    #[test]
    fn names_round_trip() {
        for status in RefundStatus::ALL {
            assert_eq!(status.as_str().parse::<RefundStatus>().unwrap(), status);
        }
    }
}
