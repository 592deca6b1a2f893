//! Currencies by ISO 4217 code, with their number of digits after the decimal point.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// Currencies whose minor unit is not 1/100 of the major unit.
const UNUSUAL_MINOR_DIGITS: &[(&str, u32)] = &[
    ("BHD", 3),
    ("CLP", 0),
    ("IQD", 3),
    ("ISK", 0),
    ("JOD", 3),
    ("JPY", 0),
    ("KRW", 0),
    ("KWD", 3),
    ("LYD", 3),
    ("OMR", 3),
    ("PYG", 0),
    ("TND", 3),
    ("UGX", 0),
    ("VND", 0),
    ("XAF", 0),
    ("XOF", 0),
    ("XPF", 0),
];

/// Sorted: `parse` searches it by bisection.
#[rustfmt::skip]
const KNOWN: &[&str] = &[
    "AED", "ALL", "AMD", "ARS", "AUD", "AZN", "BAM", "BBD", "BDT", "BGN", "BHD", "BMD", "BND",
    "BOB", "BRL", "BSD", "BWP", "BZD", "CAD", "CHF", "CLP", "CNY", "COP", "CRC", "CZK", "DKK",
    "DOP", "DZD", "EGP", "ETB", "EUR", "FJD", "GBP", "GEL", "GHS", "GTQ", "HKD", "HNL", "HUF",
    "IDR", "ILS", "INR", "IQD", "ISK", "JMD", "JOD", "JPY", "KES", "KHR", "KRW", "KWD", "KZT",
    "LAK", "LBP", "LKR", "LYD", "MAD", "MDL", "MKD", "MMK", "MNT", "MOP", "MUR", "MVR", "MWK",
    "MXN", "MYR", "MZN", "NAD", "NGN", "NIO", "NOK", "NPR", "NZD", "OMR", "PAB", "PEN", "PGK",
    "PHP", "PKR", "PLN", "PYG", "QAR", "RON", "RSD", "RWF", "SAR", "SCR", "SEK", "SGD", "THB",
    "TND", "TRY", "TTD", "TWD", "TZS", "UAH", "UGX", "USD", "UYU", "UZS", "VND", "XAF", "XCD",
    "XOF", "XPF", "ZAR", "ZMW",
];

/// A known currency, stored as its index in `KNOWN`. Create one with [`Currency::parse`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Currency(u8);

impl Currency {
    /// Accepts upper case only: `usd` is an error, so that each currency has one spelling.
    pub fn parse(code: &str) -> Result<Self, Error> {
        let index = KNOWN
            .binary_search(&code)
            .map_err(|_| Error::UnknownCurrency)?;
        u8::try_from(index)
            .map(Self)
            .map_err(|_| Error::UnknownCurrency)
    }

    pub fn code(self) -> &'static str {
        KNOWN[usize::from(self.0)]
    }

    /// Digits after the decimal point: 2 for USD, 0 for JPY, 3 for KWD.
    pub fn minor_digits(self) -> u32 {
        let unusual = UNUSUAL_MINOR_DIGITS
            .iter()
            .find(|(code, _)| *code == self.code());
        unusual.map_or(2, |(_, digits)| *digits)
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl FromStr for Currency {
    type Err = Error;

    fn from_str(code: &str) -> Result<Self, Error> {
        Self::parse(code)
    }
}

impl TryFrom<String> for Currency {
    type Error = Error;

    fn try_from(code: String) -> Result<Self, Error> {
        Self::parse(&code)
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> Self {
        currency.code().to_owned()
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_code_parses() {
        assert!(KNOWN.is_sorted());
        for code in KNOWN {
            assert_eq!(Currency::parse(code).unwrap().code(), *code);
        }
        for (code, _) in UNUSUAL_MINOR_DIGITS {
            assert!(Currency::parse(code).is_ok(), "{code}");
        }
    }

    #[test]
    fn other_spellings_and_unknown_codes_are_rejected() {
        for code in ["usd", "US", "USDX", "", "XXX", "U$D"] {
            assert_eq!(Currency::parse(code), Err(Error::UnknownCurrency), "{code}");
        }
    }
}
