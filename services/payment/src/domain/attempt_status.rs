//! The states of a payment attempt, and the transitions between them.

use crate::domain::ProviderAnswer;
use service_kit::text_enum;

text_enum! {
    "attempt status";
    pub enum AttemptStatus {
        /// Stored, and no result of a try is recorded yet. The attempt is due, or leased for the first
        /// time.
        Pending = "pending",
        /// At least one try ended without an answer, so there may be a charge. The attempt is due, leased
        /// again, or backing off.
        Unknown = "unknown",
        Captured = "captured",
        Declined = "declined",
        /// Closed: it took no money and never will.
        Voided = "voided",
        /// Closed by a definite error of the provider: it took no money and never will.
        Failed = "failed",
    }
}

impl AttemptStatus {
    /// Whether the attempt has no outcome yet. Only an open attempt is leased.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Unknown)
    }

    /// Whether the attempt may take money or has taken it. An order has at most one such attempt.
    pub const fn is_live(self) -> bool {
        self.is_open() || matches!(self, Self::Captured)
    }

    /// The state of an attempt when it is leased. After the first try it is unknown: an earlier try
    /// without a recorded answer may have charged.
    pub const fn leased(is_first_try: bool) -> Self {
        if is_first_try {
            Self::Pending
        } else {
            Self::Unknown
        }
    }

    /// The state after the provider's answer; `None` if the answer changes nothing. A late answer
    /// never changes a settled attempt.
    pub fn next(self, answer: &ProviderAnswer) -> Option<Self> {
        let after = match answer {
            ProviderAnswer::Captured { .. } | ProviderAnswer::RefundedByHand { .. } => {
                Self::Captured
            }
            ProviderAnswer::Declined { .. } => Self::Declined,
            ProviderAnswer::Failed { .. } => Self::Failed,
            ProviderAnswer::Cancelled => Self::Voided,
            ProviderAnswer::Absent
            | ProviderAnswer::Processing
            | ProviderAnswer::KeySpent { .. }
            | ProviderAnswer::NotAccepted { .. }
            | ProviderAnswer::Unknown { .. } => Self::Unknown,
            // Answers about refunds do not concern attempts.
            ProviderAnswer::Refunded { .. } => return None,
        };
        (self.is_open() && after != self).then_some(after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::provider_answer::tests::one_of_each;

    #[test]
    fn only_definite_answers_settle_open_attempts() {
        use AttemptStatus::{Captured, Declined, Failed, Unknown, Voided};
        // The order of the answers is that of `one_of_each`.
        let definite = [Captured, Captured, Declined, Failed, Voided].map(Some);
        let row = |open: Option<AttemptStatus>| {
            let mut row = [open; 11];
            row[..5].copy_from_slice(&definite);
            row[5] = None;
            row
        };
        let settled = [None; 11];
        let expected = [
            row(Some(Unknown)),
            row(None),
            settled,
            settled,
            settled,
            settled,
        ];
        for (status, row) in AttemptStatus::ALL.into_iter().zip(expected) {
            for (answer, after) in one_of_each().iter().zip(row) {
                assert_eq!(status.next(answer), after, "{status:?} + {answer:?}");
            }
        }
    }

    #[test]
    fn open_attempts_are_live() {
        let open = AttemptStatus::ALL.map(AttemptStatus::is_open);
        assert_eq!(open, [true, true, false, false, false, false]);
        let live = AttemptStatus::ALL.map(AttemptStatus::is_live);
        assert_eq!(live, [true, true, true, false, false, false]);
        for is_first_try in [true, false] {
            assert!(AttemptStatus::leased(is_first_try).is_open());
        }
    }

    #[test]
    fn names_round_trip() {
        for status in AttemptStatus::ALL {
            assert_eq!(status.as_str().parse::<AttemptStatus>().unwrap(), status);
        }
    }
}
