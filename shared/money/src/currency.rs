//! Currencies by ISO 4217 code, with their number of digits after the decimal point.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// Currencies whose minor unit is not 1/100 of the major unit.
const UNUSUAL_MINOR_DIGITS: &[(&str, u32)] = &[
    ("BHD", 3),
    ("BIF", 0),
    ("CLP", 0),
    ("DJF", 0),
    ("GNF", 0),
    ("IQD", 3),
    ("ISK", 0),
    ("JOD", 3),
    ("JPY", 0),
    ("KMF", 0),
    ("KRW", 0),
    ("KWD", 3),
    ("LYD", 3),
    ("OMR", 3),
    ("PYG", 0),
    ("RWF", 0),
    ("TND", 3),
    ("UGX", 0),
    ("VND", 0),
    ("VUV", 0),
    ("XAF", 0),
    ("XOF", 0),
    ("XPF", 0),
];

/// Currencies that no longer exist. New orders cannot use them, but stored orders and events have them,
/// so an entry is never removed.
const ENDED: &[&str] = &["BGN"];

/// Every currency that is or was accepted: all of ISO 4217 that is money in use, and those of [`ENDED`].
/// A test compares the table with a maintained list. Sorted: `parse` searches it by bisection.
#[rustfmt::skip]
const KNOWN: &[&str] = &[
    "AED", "AFN", "ALL", "AMD", "AOA", "ARS", "AUD", "AWG", "AZN", "BAM", "BBD", "BDT", "BGN",
    "BHD", "BIF", "BMD", "BND", "BOB", "BRL", "BSD", "BTN", "BWP", "BYN", "BZD", "CAD", "CDF",
    "CHF", "CLP", "CNY", "COP", "CRC", "CUP", "CVE", "CZK", "DJF", "DKK", "DOP", "DZD", "EGP",
    "ERN", "ETB", "EUR", "FJD", "FKP", "GBP", "GEL", "GHS", "GIP", "GMD", "GNF", "GTQ", "GYD",
    "HKD", "HNL", "HTG", "HUF", "IDR", "ILS", "INR", "IQD", "IRR", "ISK", "JMD", "JOD", "JPY",
    "KES", "KGS", "KHR", "KMF", "KPW", "KRW", "KWD", "KYD", "KZT", "LAK", "LBP", "LKR", "LRD",
    "LSL", "LYD", "MAD", "MDL", "MGA", "MKD", "MMK", "MNT", "MOP", "MRU", "MUR", "MVR", "MWK",
    "MXN", "MYR", "MZN", "NAD", "NGN", "NIO", "NOK", "NPR", "NZD", "OMR", "PAB", "PEN", "PGK",
    "PHP", "PKR", "PLN", "PYG", "QAR", "RON", "RSD", "RUB", "RWF", "SAR", "SBD", "SCR", "SDG",
    "SEK", "SGD", "SHP", "SLE", "SOS", "SRD", "SSP", "STN", "SVC", "SYP", "SZL", "THB", "TJS",
    "TMT", "TND", "TOP", "TRY", "TTD", "TWD", "TZS", "UAH", "UGX", "USD", "UYU", "UZS", "VED",
    "VES", "VND", "VUV", "WST", "XAF", "XCD", "XCG", "XOF", "XPF", "YER", "ZAR", "ZMW", "ZWG",
];

/// A known currency, stored as its index in `KNOWN`. Create one with [`Currency::parse`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Currency(u8);

impl Currency {
    /// For stored text: a currency that has ended is still known. Accepts upper case only: `usd` is an
    /// error, so that each currency has one spelling.
    pub fn parse(code: &str) -> Result<Self, Error> {
        let index = KNOWN
            .binary_search(&code)
            .map_err(|_| Error::UnknownCurrency)?;
        u8::try_from(index)
            .map(Self)
            .map_err(|_| Error::UnknownCurrency)
    }

    /// As [`Currency::parse`], for a new order or payment: a currency that has ended is an error.
    pub fn parse_in_use(code: &str) -> Result<Self, Error> {
        let currency = Self::parse(code)?;
        match ENDED.contains(&currency.code()) {
            true => Err(Error::EndedCurrency(currency)),
            false => Ok(currency),
        }
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
    use iso_currency::IntoEnumIterator as _;

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
        assert!(KNOWN.len() <= usize::from(u8::MAX));
    }

    /// Codes that the maintained list marks as superseded, and that ISO 4217 has among its current ones.
    /// VES: amendment 170 added VED for the time of the redenomination, and VES stayed the code of
    /// Venezuela's money.
    const STILL_IN_USE: &[&str] = &["VES"];

    /// Money in use: not superseded, no fund, no metal and no test code.
    fn is_in_use(listed: iso_currency::Currency) -> bool {
        listed.flags().is_empty() || STILL_IN_USE.contains(&listed.code())
    }

    /// A correction that the maintained list has taken over must go.
    #[test]
    fn every_correction_of_the_list_is_still_needed() {
        for code in STILL_IN_USE {
            let listed = iso_currency::Currency::from_code(code).unwrap();
            assert!(!listed.flags().is_empty(), "{code}");
            assert!(Currency::parse_in_use(code).is_ok(), "{code}");
        }
    }

    /// Fails when an update of the list adds, ends or changes a currency. Then change the table; a
    /// currency that ended moves to `ENDED`.
    #[test]
    fn table_is_that_of_iso_4217() {
        for listed in iso_currency::Currency::iter().filter(|it| is_in_use(*it)) {
            let currency = Currency::parse_in_use(listed.code()).unwrap();
            let digits = listed.exponent().unwrap();
            assert_eq!(currency.minor_digits(), u32::from(digits), "{currency}");
        }
        for code in KNOWN {
            let listed = iso_currency::Currency::from_code(code);
            let in_use = listed.is_some_and(is_in_use);
            assert_eq!(in_use, !ENDED.contains(code), "{code}");
        }
    }

    #[test]
    fn ended_currency_is_readable_and_not_in_use() {
        let lev = Currency::parse("BGN").unwrap();
        assert_eq!(serde_json::from_str::<Currency>("\"BGN\"").unwrap(), lev);
        assert_eq!(
            Currency::parse_in_use("BGN"),
            Err(Error::EndedCurrency(lev))
        );
        assert!(Currency::parse_in_use("EUR").is_ok());
    }

    #[test]
    fn other_spellings_and_unknown_codes_are_rejected() {
        for code in ["usd", "US", "USDX", "", "XXX", "U$D"] {
            assert_eq!(Currency::parse(code), Err(Error::UnknownCurrency), "{code}");
        }
    }
}
