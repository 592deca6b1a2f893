#![doc = include_str!("../README.md")]

mod card_number;
mod currency;
mod payment_method;
mod reference;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

pub use card_number::{has_card_number, is_card_number};
pub use currency::Currency;
pub use payment_method::{InvalidPaymentMethod, PaymentMethod};
pub use reference::{InvalidReference, Reference};

/// Largest amount of one [`Money`], in minor units. It is far above any real order, and small enough
/// that a 64-bit sum in SQL holds millions of such amounts without overflow.
pub const AMOUNT_MAX: i64 = 1_000_000_000_000;

/// An amount in the currency's minor unit. Never negative, never above [`AMOUNT_MAX`]:
/// [`Money::new`] checks every amount, including a deserialised one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Money {
    amount: i64,
    currency: Currency,
}

/// The members of a [`Money`] before the check.
#[derive(Deserialize)]
struct Unchecked {
    amount: i64,
    currency: Currency,
}

impl TryFrom<Unchecked> for Money {
    type Error = Error;

    fn try_from(Unchecked { amount, currency }: Unchecked) -> Result<Self, Error> {
        Self::new(amount, currency)
    }
}

/// Deserialises an amount that stands beside its currency, with the check of [`Money::new`]: for
/// `#[serde(deserialize_with)]`.
pub fn deserialize_amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let amount = i64::deserialize(deserializer)?;
    check(amount).map_err(serde::de::Error::custom)
}

fn check(amount: i64) -> Result<i64, Error> {
    match (0..=AMOUNT_MAX).contains(&amount) {
        true => Ok(amount),
        false => Err(Error::OutOfRange),
    }
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum Error {
    #[error("the amount must be between 0 and {AMOUNT_MAX} minor units")]
    OutOfRange,
    #[error("amounts in {0} and {1} cannot be added")]
    CurrencyMismatch(Currency, Currency),
    #[error("unknown currency: use an upper-case ISO 4217 code such as USD")]
    UnknownCurrency,
    #[error("{0} is no longer a currency in use")]
    EndedCurrency(Currency),
}

impl Money {
    /// Fails outside `0..=AMOUNT_MAX`.
    pub fn new(amount: i64, currency: Currency) -> Result<Self, Error> {
        let amount = check(amount)?;
        Ok(Self { amount, currency })
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
    fn only_valid_amounts_are_deserialised() {
        let read = |amount: i64| {
            let text = format!(r#"{{"amount":{amount},"currency":"USD"}}"#);
            serde_json::from_str::<Money>(&text)
        };
        for amount in [0, 1, AMOUNT_MAX] {
            let money = read(amount).unwrap();
            assert_eq!(money, usd(amount));
            let text = serde_json::to_string(&money).unwrap();
            assert_eq!(serde_json::from_str::<Money>(&text).unwrap(), money);
        }
        for amount in [-1, AMOUNT_MAX + 1, i64::MIN, i64::MAX] {
            let error = read(amount).unwrap_err().to_string();
            assert!(error.contains("the amount must be between"), "{error}");
        }
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
