//! What is to be asked of the provider about a leased attempt or refund.

use uuid::Uuid;

/// One call. Each kind may be repeated under the same key without a second effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Take the money.
    Charge { payment_method: String },
    /// Was the money taken? Asked instead of sending again once the provider may have forgotten
    /// the key.
    LookUp,
    /// Take the key out of use, and say if it was used. A charger that was paused with the charge
    /// in its hands can then no longer do harm.
    Cancel,
    /// Give the money back.
    Refund { charge_id: String, key: String },
    /// Was the money given back? As with `LookUp`.
    LookUpRefund { key: String },
}

impl Errand {
    /// What an open attempt asks for.
    pub fn of_attempt(refused: bool, forgotten: bool, payment_method: String) -> Self {
        match (refused, forgotten) {
            // The provider looks into its books for this one, not only at its keys.
            (true, _) => Self::Cancel,
            (false, true) => Self::LookUp,
            (false, false) => Self::Charge { payment_method },
        }
    }

    pub fn of_refund(forgotten: bool, charge_id: String, key: String) -> Self {
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
            Self::LookUp => "GET /v1/charges",
            Self::Cancel => "POST /v1/cancellations",
            Self::Refund { .. } => "POST /v1/refunds",
            Self::LookUpRefund { .. } => "GET /v1/refunds",
        }
    }

    /// Whether it is about an attempt, and not about a refund.
    pub fn is_payment(&self) -> bool {
        matches!(self, Self::Charge { .. } | Self::LookUp | Self::Cancel)
    }
}

/// The provider's idempotency key for an attempt. Made of durable data alone, so that whoever takes
/// the attempt over after a crash sends the very same one.
pub fn charge_key(order_id: Uuid, attempt: i32) -> String {
    format!("pay:{order_id}:{attempt}")
}

/// The same for giving an attempt's money back.
pub fn refund_key(order_id: Uuid, attempt: i32) -> String {
    format!("refund:{order_id}:{attempt}")
}

/// For a charge that no attempt owns. Its order may have a refund of its own, so it is named by the
/// charge.
pub fn orphan_refund_key(charge_id: &str) -> String {
    format!("refund:orphan:{charge_id}")
}

/// Order and attempt of a charge's key; `None` for a key that is not ours.
pub fn parse_charge_key(key: &str) -> Option<(Uuid, i32)> {
    let (order, attempt) = key.strip_prefix("pay:")?.split_once(':')?;
    let parsed = (order.parse().ok()?, attempt.parse().ok()?);
    // Only the one spelling that we send: another would be somebody else's key.
    (charge_key(parsed.0, parsed.1) == key).then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_are_made_of_durable_data_alone() {
        let id = Uuid::from_u128(7);
        let order = "00000000-0000-0000-0000-000000000007";
        assert_eq!(charge_key(id, 2), format!("pay:{order}:2"));
        assert_eq!(refund_key(id, 2), format!("refund:{order}:2"));
        assert_eq!(orphan_refund_key("ch-1"), "refund:orphan:ch-1");
    }

    #[test]
    fn a_charge_s_key_is_read_back_in_its_own_spelling_only() {
        let id = Uuid::from_u128(0xabc);
        assert_eq!(parse_charge_key(&charge_key(id, 3)), Some((id, 3)));
        for foreign in [
            format!("pay:{id}:03"),
            format!("pay:{id}"),
            format!("pay:{}:1", id.to_string().to_uppercase()),
            format!("refund:{id}:1"),
            "pay:x:1".to_owned(),
        ] {
            assert_eq!(parse_charge_key(&foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_refused_attempt_is_cancelled_and_a_forgotten_one_is_looked_up() {
        let ask = |refused, forgotten| Errand::of_attempt(refused, forgotten, "pm".to_owned());
        let charge = Errand::Charge {
            payment_method: "pm".to_owned(),
        };
        assert_eq!(ask(false, false), charge);
        assert_eq!(ask(false, true), Errand::LookUp);
        assert_eq!(ask(true, false), Errand::Cancel);
        assert_eq!(ask(true, true), Errand::Cancel);
    }
}
