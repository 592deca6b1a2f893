//! Test payment methods: the outcome of a charge is decided by what is paid with.

/// How a charge ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Captured,
    Declined(Decline),
}

/// Why no money was taken. Final: the same card would say the same again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decline {
    CardDeclined,
    InsufficientFunds,
    ExpiredCard,
    InvalidPaymentMethod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    Prompt,
    Slow,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    pub outcome: Outcome,
    pub pace: Pace,
}

#[rustfmt::skip]
const METHODS: [(&str, Outcome, Pace); 5] = [
    ("pm_card_ok", Outcome::Captured, Pace::Prompt),
    ("pm_card_declined", Outcome::Declined(Decline::CardDeclined), Pace::Prompt),
    ("pm_card_insufficient_funds", Outcome::Declined(Decline::InsufficientFunds), Pace::Prompt),
    ("pm_card_expired", Outcome::Declined(Decline::ExpiredCard), Pace::Prompt),
    ("pm_card_slow", Outcome::Captured, Pace::Slow),
];

/// An unknown method is a decline and not bad input: the caller's order must be able to end.
const UNKNOWN: Method = Method {
    outcome: Outcome::Declined(Decline::InvalidPaymentMethod),
    pace: Pace::Prompt,
};

impl Method {
    pub fn of(name: &str) -> Self {
        let known = METHODS.iter().find(|(known, ..)| *known == name);
        known.map_or(UNKNOWN, |&(_, outcome, pace)| Self { outcome, pace })
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
    fn every_test_method_has_its_outcome_and_only_one_is_slow() {
        for (name, outcome, pace) in METHODS {
            assert_eq!(Method::of(name), Method { outcome, pace }, "{name}");
            assert_eq!(pace == Pace::Slow, name == "pm_card_slow");
            assert_eq!(
                outcome == Outcome::Captured,
                name.ends_with("_ok") || pace == Pace::Slow
            );
        }
    }

    #[test]
    fn an_unknown_method_is_declined() {
        for name in ["", "pm_card", "PM_CARD_OK", "pm_card_ok "] {
            assert_eq!(Method::of(name), UNKNOWN, "{name:?}");
        }
    }
}
