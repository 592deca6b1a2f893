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
        /// The provider will not return the money under this key. An operator settles it.
        Failed = "failed",
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

    /// The state after the provider's answer; `None` if the answer changes nothing.
    pub fn next(self, answer: &ProviderAnswer) -> Option<Self> {
        let after = match answer {
            ProviderAnswer::Refunded { .. } => Self::Refunded,
            ProviderAnswer::Failed { .. } => Self::Failed,
            ProviderAnswer::Absent
            | ProviderAnswer::Processing
            | ProviderAnswer::KeySpent { .. }
            | ProviderAnswer::NotAccepted { .. }
            | ProviderAnswer::Unknown { .. } => Self::Unknown,
            // Answers about attempts do not concern refunds.
            ProviderAnswer::Captured { .. }
            | ProviderAnswer::RefundedByHand { .. }
            | ProviderAnswer::Declined { .. }
            | ProviderAnswer::Cancelled => return None,
        };
        (self.is_open() && after != self).then_some(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::provider_answer::tests::one_of_each;

    #[test]
    fn only_definite_answers_settle_open_refunds() {
        let (failed, refunded) = (Some(RefundStatus::Failed), Some(RefundStatus::Refunded));
        // The order of the answers is that of `one_of_each`.
        let row = |open: Option<RefundStatus>| {
            [
                None, None, None, failed, None, refunded, open, open, open, open, open,
            ]
        };
        let expected = [
            row(Some(RefundStatus::Unknown)),
            row(None),
            [None; 11],
            [None; 11],
        ];
        for (status, row) in RefundStatus::ALL.into_iter().zip(expected) {
            for (answer, after) in one_of_each().iter().zip(row) {
                assert_eq!(status.next(answer), after, "{status:?} + {answer:?}");
            }
        }
    }

    #[test]
    fn settled_refunds_are_not_open() {
        assert_eq!(
            RefundStatus::ALL.map(RefundStatus::is_open),
            [true, true, false, false]
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
