//! A request to refund a charge.

use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::{Details, Invalid, REFERENCE_LEN_MAX, Request, key, read, require};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    charge_id: Uuid,
    amount: i64,
    reference: String,
}

impl Request {
    /// Checks only the request. Only the books show whether the charge exists and is large enough.
    pub fn refund(header: Option<&[u8]>, body: &[u8]) -> Result<Self, Invalid> {
        let key = key(header)?;
        let body: Body = read(body)?;
        require("reference", &body.reference, REFERENCE_LEN_MAX)?;
        if body.amount <= 0 {
            return Err(Invalid::Body("the amount must be above zero".to_owned()));
        }
        let fingerprint = fingerprint(&body);
        Ok(Self {
            key,
            reference: body.reference,
            details: Details::Refund {
                charge_id: body.charge_id,
                amount: body.amount,
            },
            fingerprint,
        })
    }
}

/// The hashed array starts with a fixed word and has four members; that of a charge has five. So no
/// refund has the fingerprint of a charge.
fn fingerprint(body: &Body) -> [u8; 32] {
    let canonical = json!(["refund", body.charge_id, body.amount, body.reference]);
    Sha256::digest(canonical.to_string()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str =
        r#"{"charge_id":"0198c0de-0000-7000-8000-000000000001","amount":5000,"reference":"o-1"}"#;

    fn parse(body: &str) -> Result<Request, Invalid> {
        Request::refund(Some(b"k"), body.as_bytes())
    }

    #[test]
    fn fingerprint_covers_charge_amount_and_reference() {
        let first = parse(BODY).unwrap().fingerprint;
        let spaced = BODY.replace(',', " ,\n");
        assert_eq!(parse(&spaced).unwrap().fingerprint, first);
        for (from, to) in [("0001\"", "0002\""), ("5000", "4999"), ("o-1", "o-2")] {
            let other = parse(&BODY.replace(from, to)).unwrap().fingerprint;
            assert_ne!(other, first, "{to}");
        }
    }

    #[test]
    fn refund_of_zero_or_less_is_invalid() {
        for amount in ["0", "-1", "-9223372036854775808"] {
            let parsed = parse(&BODY.replace("5000", amount));
            assert!(matches!(parsed, Err(Invalid::Body(_))), "{amount}");
        }
    }
}
