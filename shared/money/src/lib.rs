#![doc = include_str!("../README.md")]

mod card_number;
mod currency;
mod payment_method;
mod reference;

use std::fmt;

use thiserror::Error;

pub use card_number::{has_card_number, is_card_number};
pub use currency::Currency;
pub use payment_method::{InvalidPaymentMethod, PaymentMethod};
pub use reference::{InvalidReference, Reference};

/// Largest amount of one [`Money`], in minor units. It is far above any real order, and small enough
/// that a 64-bit sum in SQL holds millions of such amounts without overflow.
pub const AMOUNT_MAX: i64 = 1_000_000_000_000;

/// An amount in the currency's minor unit. Never negative, never above [`AMOUNT_MAX`]: it implements
/// no `Deserialize`, so that [`Money::new`] checks every amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Money {
    amount: i64,
    currency: Currency,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum Error {
    #[error("the amount must be between 0 and {AMOUNT_MAX} minor units")]
    OutOfRange,
    #[error("amounts in {0} and {1} cannot be added")]
    CurrencyMismatch(Currency, Currency),
    #[error("unknown currency: use an upper-case ISO 4217 code such as USD")]
    UnknownCurrency,
}

impl Money {
    /// Fails outside `0..=AMOUNT_MAX`.
    pub fn new(amount: i64, currency: Currency) -> Result<Self, Error> {
        if (0..=AMOUNT_MAX).contains(&amount) {
            Ok(Self { amount, currency })
        } else {
            Err(Error::OutOfRange)
        }
    }

    pub fn zero(currency: Currency) -> Self {
        Self {
            amount: 0,
            currency,
        }
    }

    /// The amount in minor units: cents for USD, yen for JPY.
    pub fn amount(self) -> i64 {
        self.amount
    }

    pub fn currency(self) -> Currency {
        self.currency
    }

    pub fn checked_add(self, other: Self) -> Result<Self, Error> {
        if self.currency != other.currency {
            return Err(Error::CurrencyMismatch(self.currency, other.currency));
        }
        let sum = self
            .amount
            .checked_add(other.amount)
            .ok_or(Error::OutOfRange)?;
        Self::new(sum, self.currency)
    }

    pub fn checked_mul(self, factor: u32) -> Result<Self, Error> {
        let product = self
            .amount
            .checked_mul(i64::from(factor))
            .ok_or(Error::OutOfRange)?;
        Self::new(product, self.currency)
    }
}

/// `50.00 USD`, `5000 JPY`: as many decimals as the currency has.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.currency.minor_digits();
        if digits == 0 {
            return write!(f, "{} {}", self.amount, self.currency);
        }
        let scale = 10_i64.pow(digits);
        let (major, minor) = (self.amount / scale, self.amount % scale);
        let width = digits as usize;
        write!(f, "{major}.{minor:0width$} {}", self.currency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(amount: i64) -> Money {
        Money::new(amount, Currency::parse("USD").unwrap()).unwrap()
    }

    #[test]
    fn negative_and_huge_amounts_are_rejected() {
        let eur = Currency::parse("EUR").unwrap();
        assert_eq!(Money::new(-1, eur), Err(Error::OutOfRange));
        assert_eq!(Money::new(AMOUNT_MAX + 1, eur), Err(Error::OutOfRange));
        assert!(Money::new(AMOUNT_MAX, eur).is_ok());
    }

    #[test]
    fn overflow_is_an_error_and_never_wraps() {
        assert_eq!(usd(AMOUNT_MAX).checked_add(usd(1)), Err(Error::OutOfRange));
        assert_eq!(
            usd(AMOUNT_MAX).checked_mul(u32::MAX),
            Err(Error::OutOfRange)
        );
        assert_eq!(usd(2500).checked_mul(2), Ok(usd(5000)));
    }

    #[test]
    fn different_currencies_cannot_be_added() {
        let yen = Money::new(1, Currency::parse("JPY").unwrap()).unwrap();
        assert!(matches!(
            usd(1).checked_add(yen),
            Err(Error::CurrencyMismatch(..))
        ));
    }

    #[test]
    fn display_has_the_decimals_of_the_currency() {
        let yen = Money::new(5000, Currency::parse("JPY").unwrap()).unwrap();
        let dinar = Money::new(1, Currency::parse("KWD").unwrap()).unwrap();
        assert_eq!(usd(5).to_string(), "0.05 USD");
        assert_eq!(yen.to_string(), "5000 JPY");
        assert_eq!(dinar.to_string(), "0.001 KWD");
    }
}
