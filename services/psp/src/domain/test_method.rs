//! Test payment methods: the method decides how a charge and its refunds end, and how fast.

use crate::domain::settlement::{Ending, FailureCode, Processing};

/// What a charge with this method leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardOutcome {
    /// The provider accepts the charge. Its money is taken immediately, or later, or not at all.
    Accepted(Processing),
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
    /// How refunds of its charges end.
    pub refund: Processing,
}

const CAPTURED: TestMethod = TestMethod {
    outcome: CardOutcome::Accepted(Processing::AtOnce),
    speed: ChargeSpeed::Immediate,
    refund: Processing::AtOnce,
};
const SLOW: TestMethod = TestMethod {
    speed: ChargeSpeed::Slow,
    ..CAPTURED
};

#[rustfmt::skip]
const METHODS: [(&str, TestMethod); 9] = [
    ("pm_card_ok", CAPTURED),
    ("pm_card_declined", declined(Decline::CardDeclined)),
    ("pm_card_insufficient_funds", declined(Decline::InsufficientFunds)),
    ("pm_card_expired", declined(Decline::ExpiredCard)),
    ("pm_card_slow", SLOW),
    ("pm_card_processing", processed(Ending::Succeeds)),
    ("pm_card_processing_fails", processed(Ending::Fails(FailureCode::InsufficientFunds))),
    ("pm_card_refund_slow", refunded_later(Ending::Succeeds)),
    ("pm_card_refund_fails", refunded_later(Ending::Fails(FailureCode::AccountClosed))),
];

/// A charge with this name is invalid input, as at providers that know all methods of a caller.
pub const UNKNOWN_NAME: &str = "pm_card_unknown";

/// Any other unknown method is a decline and not invalid input.
const UNKNOWN: TestMethod = declined(Decline::InvalidPaymentMethod);

const fn declined(decline: Decline) -> TestMethod {
    TestMethod {
        outcome: CardOutcome::Declined(decline),
        ..CAPTURED
    }
}

/// The charge is pending before it ends.
const fn processed(ending: Ending) -> TestMethod {
    TestMethod {
        outcome: CardOutcome::Accepted(Processing::Later(ending)),
        ..CAPTURED
    }
}

/// The charge is captured immediately, but a refund of it is pending before it ends.
const fn refunded_later(ending: Ending) -> TestMethod {
    TestMethod {
        refund: Processing::Later(ending),
        ..CAPTURED
    }
}

impl TestMethod {
    pub fn of(name: &str) -> Self {
        let known = METHODS.iter().find(|(known, _)| *known == name);
        known.map_or(UNKNOWN, |(_, method)| *method)
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
        for (name, method) in METHODS {
            assert_eq!(TestMethod::of(name), method, "{name}");
            assert_eq!(method.speed == ChargeSpeed::Slow, name == "pm_card_slow");
            let is_declined = matches!(method.outcome, CardOutcome::Declined(_));
            let declines = ["_declined", "_insufficient_funds", "_expired"];
            assert_eq!(is_declined, declines.iter().any(|end| name.ends_with(end)));
        }
    }

    #[test]
    fn names_say_what_is_pending_and_what_fails() {
        for (name, method) in METHODS {
            let later = |processing| matches!(processing, Processing::Later(_));
            let fails = |processing| matches!(processing, Processing::Later(Ending::Fails(_)));
            if let CardOutcome::Accepted(charge) = method.outcome {
                assert_eq!(later(charge), name.contains("_processing"), "{name}");
                assert_eq!(fails(charge), name.ends_with("_processing_fails"), "{name}");
            }
            assert_eq!(later(method.refund), name.contains("_refund_"), "{name}");
            assert_eq!(
                fails(method.refund),
                name.ends_with("_refund_fails"),
                "{name}"
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
