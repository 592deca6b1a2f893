//! A charge request, checked before anything is done for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use money::{Currency, Money};
use serde::Deserialize;
use serde_json::{Value, error::Category, json};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

pub const KEY_LEN_MAX: usize = 255;
pub const REFERENCE_LEN_MAX: usize = 255;
pub const PAYMENT_METHOD_LEN_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub key: Arc<str>,
    pub reference: String,
    pub amount: Money,
    pub payment_method: String,
    /// Equal for equal requests, whatever the order of members and the white space.
    pub fingerprint: [u8; 32],
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum Invalid {
    #[error("send an Idempotency-Key of 1 to {KEY_LEN_MAX} visible ASCII characters")]
    Key,
    #[error("the body is not JSON")]
    Json,
    #[error("{0}")]
    Body(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    reference: String,
    amount: i64,
    currency: Currency,
    payment_method: String,
    /// The caller's own notes: part of what makes two requests equal, and not kept.
    #[serde(default)]
    metadata: BTreeMap<String, Value>,
}

impl Request {
    pub fn parse(key: Option<&[u8]>, body: &[u8]) -> Result<Self, Invalid> {
        let key = key
            .and_then(|key| visible(key, KEY_LEN_MAX))
            .ok_or(Invalid::Key)?;
        let body: Body = serde_json::from_slice(body).map_err(|error| match error.classify() {
            Category::Data => Invalid::Body(error.to_string()),
            Category::Io | Category::Syntax | Category::Eof => Invalid::Json,
        })?;
        require("reference", &body.reference, REFERENCE_LEN_MAX)?;
        require(
            "payment_method",
            &body.payment_method,
            PAYMENT_METHOD_LEN_MAX,
        )?;
        if body.amount == 0 {
            return Err(Invalid::Body("the amount must be above zero".to_owned()));
        }
        let amount = Money::new(body.amount, body.currency)
            .map_err(|error| Invalid::Body(error.to_string()))?;
        let fingerprint = fingerprint(&body);
        Ok(Self {
            key: Arc::from(key),
            reference: body.reference,
            amount,
            payment_method: body.payment_method,
            fingerprint,
        })
    }
}

fn require(field: &str, text: &str, len_max: usize) -> Result<(), Invalid> {
    match visible(text.as_bytes(), len_max) {
        Some(_) => Ok(()),
        None => Err(Invalid::Body(format!(
            "{field} must be 1 to {len_max} visible ASCII characters"
        ))),
    }
}

/// Nothing that a log, a header or a text column could choke on.
fn visible(text: &[u8], len_max: usize) -> Option<&str> {
    let fits = (1..=len_max).contains(&text.len()) && text.iter().all(u8::is_ascii_graphic);
    fits.then(|| std::str::from_utf8(text).ok()).flatten()
}

fn fingerprint(body: &Body) -> [u8; 32] {
    let canonical = json!([
        body.reference,
        body.amount,
        body.currency,
        body.payment_method,
        body.metadata,
    ]);
    Sha256::digest(canonical.to_string()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str =
        r#"{"reference":"o-1","amount":5000,"currency":"USD","payment_method":"pm_card_ok"}"#;

    fn parse(key: &str, body: &str) -> Result<Request, Invalid> {
        Request::parse(Some(key.as_bytes()), body.as_bytes())
    }

    #[test]
    fn the_fingerprint_overlooks_order_and_space_and_nothing_else() {
        let reordered = r#" {"amount": 5000, "payment_method": "pm_card_ok",
                            "currency": "USD", "metadata": {}, "reference": "o-1"} "#;
        let first = parse("k", BODY).unwrap().fingerprint;
        assert_eq!(parse("k", reordered).unwrap().fingerprint, first);
        for (from, to) in [
            ("o-1", "o-2"),
            ("5000", "5001"),
            ("USD", "EUR"),
            ("_ok", "_slow"),
        ] {
            let other = parse("k", &BODY.replace(from, to)).unwrap().fingerprint;
            assert_ne!(other, first, "{to}");
        }
        let noted = BODY.replace('}', r#","metadata":{"a":1}}"#);
        assert_ne!(parse("k", &noted).unwrap().fingerprint, first);
    }

    #[test]
    fn a_key_is_visible_ascii_of_bounded_length() {
        let long = "k".repeat(KEY_LEN_MAX + 1);
        for key in ["", "a b", "a\tb", "é", long.as_str()] {
            assert_eq!(parse(key, BODY), Err(Invalid::Key), "{key:?}");
        }
        assert_eq!(Request::parse(None, BODY.as_bytes()), Err(Invalid::Key));
        assert!(parse(&long[1..], BODY).is_ok());
    }
}
