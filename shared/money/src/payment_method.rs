//! The name of a payment method: clients send it, the provider reads it.

use std::fmt;

use thiserror::Error;

use crate::card_number::is_card_number;

/// 1 to 64 visible ASCII characters: the names that the provider accepts. The provider rejects
/// other names with an error that is not a decline. An attempt with such a name would stay
/// `unknown`, and its order would never reach a terminal state. Never a card number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaymentMethod(String);

/// Never has the text itself: it may be a card number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InvalidPaymentMethod {
    #[error(
        "payment_method must have 1 to {} visible ASCII characters",
        PaymentMethod::LEN_MAX
    )]
    Name,
    #[error(
        "payment_method is a card number; never send one here, send the name that the provider \
         gave to the card"
    )]
    CardNumber,
}

impl PaymentMethod {
    /// Longest name, in characters.
    pub const LEN_MAX: usize = 64;

    pub fn parse(name: impl Into<String>) -> Result<Self, InvalidPaymentMethod> {
        let name = name.into();
        if is_card_number(&name) {
            return Err(InvalidPaymentMethod::CardNumber);
        }
        let is_visible = name.bytes().all(|byte| byte.is_ascii_graphic());
        match is_visible && (1..=Self::LEN_MAX).contains(&name.len()) {
            true => Ok(Self(name)),
            false => Err(InvalidPaymentMethod::Name),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PaymentMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_visible_ascii_is_accepted() {
        let longest = "p".repeat(PaymentMethod::LEN_MAX);
        for name in ["pm_card_ok", "!", "~", &longest] {
            assert_eq!(PaymentMethod::parse(name).unwrap().as_str(), name);
        }
        for name in ["", "pm card", "pm_é", "pm\n", &format!("{longest}p")] {
            assert_eq!(
                PaymentMethod::parse(name),
                Err(InvalidPaymentMethod::Name),
                "{name:?}"
            );
        }
    }

    #[test]
    fn card_number_is_rejected_and_not_repeated() {
        for name in [
            "4111111111111111",
            "4111-1111-1111-1111",
            "4111 1111 1111 1111",
        ] {
            let error = PaymentMethod::parse(name).unwrap_err();
            assert_eq!(error, InvalidPaymentMethod::CardNumber);
            assert!(!error.to_string().contains("1111"));
        }
    }
}
