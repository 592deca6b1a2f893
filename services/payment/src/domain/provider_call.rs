//! The calls to the provider that a leased attempt or refund needs.

use crate::domain::KeyState;

/// One call. Each kind may be repeated under the same key without a second effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderCall {
    /// Take the money.
    Charge { payment_method: String },
    /// Ask whether the money was taken. Used instead of `Charge` when sending the key could charge again
    /// or could not settle anything.
    LookUpCharge,
    /// Make the key unusable, and ask whether it was used. After that, a charger that was paused
    /// before its call can no longer take money.
    CancelKey,
    /// Refund the charge.
    Refund { charge_id: String, key: String },
    /// Ask whether the charge was refunded, under this key or manually. Used like `LookUpCharge`.
    LookUpRefund { charge_id: String, key: String },
}

/// What decides which call an open attempt needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptSituation {
    /// Fulfilment has rejected the order.
    pub rejected: bool,
    /// The provider may no longer remember the key.
    pub forgotten: bool,
    pub key_state: KeyState,
    /// The provider can cancel keys.
    pub can_cancel: bool,
}

impl ProviderCall {
    /// The call for an open attempt. Without cancellation, a rejected attempt is settled like any other:
    /// only its outcome shows whether there is money to refund.
    pub fn for_attempt(situation: AttemptSituation, payment_method: String) -> Self {
        if situation.rejected && situation.can_cancel {
            // The provider checks its ledger for this call, not only its keys.
            Self::CancelKey
        } else if situation.forgotten || !situation.key_state.may_send() {
            Self::LookUpCharge
        } else {
            Self::Charge { payment_method }
        }
    }

    pub fn for_refund(
        forgotten: bool,
        key_state: KeyState,
        charge_id: String,
        key: String,
    ) -> Self {
        if forgotten || !key_state.may_send() {
            Self::LookUpRefund { charge_id, key }
        } else {
            Self::Refund { charge_id, key }
        }
    }

    /// Name of the span and label of the metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Charge { .. } => "charge",
            Self::LookUpCharge => "look up charge",
            Self::CancelKey => "cancel key",
            Self::Refund { .. } => "refund",
            Self::LookUpRefund { .. } => "look up refund",
        }
    }

    /// Whether the call is about an attempt; otherwise it is about a refund.
    pub fn is_for_attempt(&self) -> bool {
        matches!(
            self,
            Self::Charge { .. } | Self::LookUpCharge | Self::CancelKey
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_sent_only_while_sending_settles_it() {
        let charge = ProviderCall::Charge {
            payment_method: "pm".to_owned(),
        };
        for rejected in [false, true] {
            for forgotten in [false, true] {
                for key_state in KeyState::ALL {
                    for can_cancel in [false, true] {
                        let situation = AttemptSituation {
                            rejected,
                            forgotten,
                            key_state,
                            can_cancel,
                        };
                        let expected = match situation {
                            _ if rejected && can_cancel => ProviderCall::CancelKey,
                            _ if !forgotten && key_state == KeyState::Usable => charge.clone(),
                            _ => ProviderCall::LookUpCharge,
                        };
                        let call = ProviderCall::for_attempt(situation, "pm".to_owned());
                        assert_eq!(call, expected, "{situation:?}");
                    }
                }
            }
        }
    }
}
