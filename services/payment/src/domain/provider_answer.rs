//! What the provider's answer to a call means: whether money moved.

use std::time::Duration;

/// The code of an attempt that ended because the provider repeats a stored error under its key.
pub const PROVIDER_ERROR: &str = "provider_error";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderAnswer {
    Captured {
        charge_id: String,
    },
    /// The money was taken, and an operator has refunded all of it at the provider.
    RefundedByHand {
        charge_id: String,
        refund_id: String,
    },
    /// Definite: no money moved under this key, and none will. The customer can use another card.
    Declined {
        code: String,
    },
    /// Definite, for a charge or a refund: an error that repeating the call cannot change.
    Failed {
        code: String,
    },
    /// The key was cancelled: no money moved under it, and none will.
    Cancelled,
    Refunded {
        refund_id: String,
    },
    /// Definite: the provider's ledger has no entry under the key. The same key may be sent again, as
    /// if for the first time.
    Absent,
    /// The provider accepted the call and decides later. Only a lookup shows how it ends.
    Processing,
    /// The provider repeats a stored error under this key. Only a lookup shows whether money moved.
    KeySpent {
        reason: String,
    },
    /// The provider did not accept the call from us: credentials, limits, or a key that it knows with
    /// another request. An operator has to look; until then the call is repeated.
    NotAccepted {
        reason: String,
        retry_after: Option<Duration>,
    },
    /// Anything else. The money may have moved, so only the same key may be sent again.
    Unknown {
        reason: String,
        retry_after: Option<Duration>,
    },
}

impl ProviderAnswer {
    /// Label of the metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Captured { .. } => "captured",
            Self::RefundedByHand { .. } => "refunded_by_hand",
            Self::Declined { .. } => "declined",
            Self::Failed { .. } => "failed",
            Self::Cancelled => "cancelled",
            Self::Refunded { .. } => "refunded",
            Self::Absent => "absent",
            Self::Processing => "processing",
            Self::KeySpent { .. } => "key_spent",
            Self::NotAccepted { .. } => "not_accepted",
            Self::Unknown { .. } => "unknown",
        }
    }

    /// Why the outcome is still open; `None` for a definite answer.
    pub fn open_reason(&self) -> Option<&str> {
        match self {
            Self::Absent => Some("the provider has no entry under the key"),
            Self::Processing => Some("the provider is processing the call"),
            Self::KeySpent { reason }
            | Self::NotAccepted { reason, .. }
            | Self::Unknown { reason, .. } => Some(reason),
            Self::Captured { .. }
            | Self::RefundedByHand { .. }
            | Self::Declined { .. }
            | Self::Failed { .. }
            | Self::Cancelled
            | Self::Refunded { .. } => None,
        }
    }

    /// How long the provider asked us to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::NotAccepted { retry_after, .. } | Self::Unknown { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// One answer of each kind. The tables in the tests of both statuses rely on this order.
    pub(crate) fn one_of_each() -> [ProviderAnswer; 11] {
        let text = str::to_owned;
        [
            ProviderAnswer::Captured {
                charge_id: text("ch_1"),
            },
            ProviderAnswer::RefundedByHand {
                charge_id: text("ch_1"),
                refund_id: text("re_1"),
            },
            ProviderAnswer::Declined {
                code: text("card_declined"),
            },
            ProviderAnswer::Failed {
                code: text("amount_too_small"),
            },
            ProviderAnswer::Cancelled,
            ProviderAnswer::Refunded {
                refund_id: text("re_1"),
            },
            ProviderAnswer::Absent,
            ProviderAnswer::Processing,
            ProviderAnswer::KeySpent {
                reason: text("status 500"),
            },
            ProviderAnswer::NotAccepted {
                reason: text("status 401"),
                retry_after: None,
            },
            ProviderAnswer::Unknown {
                reason: text("timed out"),
                retry_after: None,
            },
        ]
    }

    #[test]
    fn every_answer_without_an_outcome_has_a_reason() {
        let open = one_of_each().map(|answer| answer.open_reason().is_some());
        let expected = [
            false, false, false, false, false, false, true, true, true, true, true,
        ];
        assert_eq!(open, expected);
    }
}
