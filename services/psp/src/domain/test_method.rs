//! Test payment methods: the method decides how a charge ends, and how fast.

/// How a charge with this method ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardOutcome {
    Captured,
    Declined(Decline),
}

/// Why nothing was charged. Final: a retry with the same card gets the same decline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decline {
    CardDeclined,
    InsufficientFunds,
    ExpiredCard,
    InvalidPaymentMethod,
}

/// How long a charge takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargeSpeed {
    Immediate,
    /// Takes the setting `PSP_SLOW_MS`.
    Slow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestMethod {
    pub outcome: CardOutcome,
    pub speed: ChargeSpeed,
}

#[rustfmt::skip]
const METHODS: [(&str, CardOutcome, ChargeSpeed); 5] = [
    ("pm_card_ok", CardOutcome::Captured, ChargeSpeed::Immediate),
    ("pm_card_declined", CardOutcome::Declined(Decline::CardDeclined), ChargeSpeed::Immediate),
    ("pm_card_insufficient_funds", CardOutcome::Declined(Decline::InsufficientFunds), ChargeSpeed::Immediate),
    ("pm_card_expired", CardOutcome::Declined(Decline::ExpiredCard), ChargeSpeed::Immediate),
    ("pm_card_slow", CardOutcome::Captured, ChargeSpeed::Slow),
];

/// An unknown method is a decline and not invalid input, so that the caller's order can end.
const UNKNOWN: TestMethod = TestMethod {
    outcome: CardOutcome::Declined(Decline::InvalidPaymentMethod),
    speed: ChargeSpeed::Immediate,
};

impl TestMethod {
    pub fn of(name: &str) -> Self {
        let known = METHODS.iter().find(|(known, ..)| *known == name);
        known.map_or(UNKNOWN, |&(_, outcome, speed)| Self { outcome, speed })
    }
}

impl Decline {
    pub fn code(self) -> &'static str {
        match self {
            Self::CardDeclined => "card_declined",
            Self::InsufficientFunds => "insufficient_funds",
            Self::ExpiredCard => "expired_card",
            Self::InvalidPaymentMethod => "invalid_payment_method",
        }
    }

    pub fn message(self) -> &'static str {
        match self {
            Self::CardDeclined => "The card was declined.",
            Self::InsufficientFunds => "The card has insufficient funds.",
            Self::ExpiredCard => "The card has expired.",
            Self::InvalidPaymentMethod => "There is no such payment method.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_has_its_outcome_and_one_is_slow() {
        for (name, outcome, speed) in METHODS {
            assert_eq!(
                TestMethod::of(name),
                TestMethod { outcome, speed },
                "{name}"
            );
            assert_eq!(speed == ChargeSpeed::Slow, name == "pm_card_slow");
            assert_eq!(
                outcome == CardOutcome::Captured,
                name.ends_with("_ok") || speed == ChargeSpeed::Slow
            );
        }
    }

    #[test]
    fn unknown_method_is_declined() {
        for name in ["", "pm_card", "PM_CARD_OK", "pm_card_ok "] {
            assert_eq!(TestMethod::of(name), UNKNOWN, "{name:?}");
        }
    }
}
