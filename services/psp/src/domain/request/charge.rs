//! A request for a charge.

use std::collections::BTreeMap;

use money::{Currency, Money, PaymentMethod};
use serde::Deserialize;
use serde_json::{Value, json};
use service_kit::json;
use sha2::{Digest as _, Sha256};

use super::{CHARGE_AMOUNT_MIN, Details, Invalid, REFERENCE_LEN_MAX, Request, key, read, require};
use crate::domain::test_method;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    reference: String,
    amount: i64,
    currency: Currency,
    payment_method: String,
    /// The caller's notes: part of the fingerprint, but not stored.
    #[serde(default)]
    metadata: BTreeMap<String, Value>,
}

impl Request {
    pub fn charge(header: Option<&[u8]>, body: &[u8]) -> Result<Self, Invalid> {
        let key = key(header)?;
        let body: Body = read(body)?;
        require("reference", &body.reference, REFERENCE_LEN_MAX)?;
        PaymentMethod::parse(&body.payment_method)
            .map_err(|error| Invalid::Body(error.to_string()))?;
        if body.amount == 0 {
            return Err(Invalid::Body("the amount must be above zero".to_owned()));
        }
        let amount = Money::new(body.amount, body.currency)
            .map_err(|error| Invalid::Body(error.to_string()))?;
        if body.amount < CHARGE_AMOUNT_MIN {
            return Err(Invalid::AmountTooSmall);
        }
        if body.payment_method == test_method::UNKNOWN_NAME {
            return Err(Invalid::UnknownPaymentMethod);
        }
        let fingerprint = fingerprint(&body);
        Ok(Self {
            key,
            reference: body.reference,
            details: Details::Charge {
                amount,
                payment_method: body.payment_method,
            },
            fingerprint,
        })
    }
}

fn fingerprint(body: &Body) -> [u8; 32] {
    let canonical = json!([
        body.reference,
        body.amount,
        body.currency,
        body.payment_method,
        body.metadata,
    ]);
    Sha256::digest(json::canonical(&canonical)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::request::KEY_LEN_MAX;

    const BODY: &str =
        r#"{"reference":"o-1","amount":5000,"currency":"USD","payment_method":"pm_card_ok"}"#;

    fn parse(key: &str, body: &str) -> Result<Request, Invalid> {
        Request::charge(Some(key.as_bytes()), body.as_bytes())
    }

    #[test]
    fn fingerprint_ignores_only_member_order_and_white_space() {
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
    fn key_is_visible_ascii_of_bounded_length() {
        let long = "k".repeat(KEY_LEN_MAX + 1);
        for key in ["", "a b", "a\tb", "é", long.as_str()] {
            assert_eq!(parse(key, BODY), Err(Invalid::Key), "{key:?}");
        }
        assert_eq!(Request::charge(None, BODY.as_bytes()), Err(Invalid::Key));
        assert!(parse(&long[1..], BODY).is_ok());
    }
}
