//! The calls to the provider that a leased attempt or refund needs.

/// One call. Each kind may be repeated under the same key without a second effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderCall {
    /// Take the money.
    Charge { payment_method: String },
    /// Ask whether the money was taken. Used instead of `Charge` when the provider may have forgotten
    /// the key: the same key could then charge again.
    LookUpCharge,
    /// Make the key unusable, and ask whether it was used. After that, a charger that was paused
    /// before its call can no longer take money.
    CancelKey,
    /// Refund the charge.
    Refund { charge_id: String, key: String },
    /// Ask whether the charge was refunded. Used like `LookUpCharge`.
    LookUpRefund { key: String },
}

impl ProviderCall {
    /// The call for an open attempt. `forgotten`: the provider may no longer remember the key.
    pub fn for_attempt(rejected: bool, forgotten: bool, payment_method: String) -> Self {
        match (rejected, forgotten) {
            // The provider checks its ledger for this call, not only its keys.
            (true, _) => Self::CancelKey,
            (false, true) => Self::LookUpCharge,
            (false, false) => Self::Charge { payment_method },
        }
    }

    pub fn for_refund(forgotten: bool, charge_id: String, key: String) -> Self {
        if forgotten {
            Self::LookUpRefund { key }
        } else {
            Self::Refund { charge_id, key }
        }
    }

    /// Name of the span and label of the metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Charge { .. } => "POST /v1/charges",
            Self::LookUpCharge => "GET /v1/charges",
            Self::CancelKey => "POST /v1/cancellations",
            Self::Refund { .. } => "POST /v1/refunds",
            Self::LookUpRefund { .. } => "GET /v1/refunds",
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
    fn rejected_is_cancelled_and_forgotten_is_looked_up() {
        let call =
            |rejected, forgotten| ProviderCall::for_attempt(rejected, forgotten, "pm".to_owned());
        let charge = ProviderCall::Charge {
            payment_method: "pm".to_owned(),
        };
        assert_eq!(call(false, false), charge);
        assert_eq!(call(false, true), ProviderCall::LookUpCharge);
        assert_eq!(call(true, false), ProviderCall::CancelKey);
        assert_eq!(call(true, true), ProviderCall::CancelKey);
    }
}
