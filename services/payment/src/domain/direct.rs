//! A direct charge as a client requests it, and its checks.

use money::{Currency, InvalidPaymentMethod, InvalidReference, Money, PaymentMethod, Reference};
use serde::Deserialize;
use thiserror::Error;
use utoipa::ToSchema;

/// The route of direct charges: the scope of their idempotency keys.
pub const DIRECT_ROUTE: &str = "POST /payments";

/// The body of `POST /payments`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DirectChargeRequest)]
pub struct Request {
    /// In the currency's minor unit.
    #[schema(example = 5000, minimum = 1)]
    amount: i64,
    /// Upper-case ISO 4217 code of a currency in use.
    #[schema(example = "USD")]
    currency: String,
    /// The name that the provider gave to the customer's card or account. Never a card number.
    #[schema(
        example = "pm_card_ok",
        min_length = 1,
        max_length = 64,
        pattern = "^[!-~]+$"
    )]
    payment_method: String,
    /// The client's name for what is paid, for example an invoice or a booking. It is unique per
    /// principal and never expires.
    #[schema(example = "invoice-4711", min_length = 1, max_length = 128)]
    #[serde(default)]
    reference: Option<String>,
}

/// A request that passed every check.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectCharge {
    pub amount: Money,
    pub payment_method: PaymentMethod,
    pub reference: Option<Reference>,
}

#[derive(Debug, Error, PartialEq)]
pub enum InvalidCharge {
    #[error("amount must be at least 1 minor unit")]
    Amount,
    #[error(transparent)]
    PaymentMethod(#[from] InvalidPaymentMethod),
    #[error(transparent)]
    Reference(#[from] InvalidReference),
    #[error(transparent)]
    Money(#[from] money::Error),
}

impl DirectCharge {
    pub fn check(request: Request) -> Result<Self, InvalidCharge> {
        let payment_method = PaymentMethod::parse(request.payment_method)?;
        let reference = request.reference.map(Reference::parse).transpose()?;
        let currency = Currency::parse_in_use(&request.currency)?;
        if request.amount < 1 {
            return Err(InvalidCharge::Amount);
        }
        Ok(Self {
            amount: Money::new(request.amount, currency)?,
            payment_method,
            reference,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(member: &str, value: Value) -> Result<DirectCharge, InvalidCharge> {
        let mut body = json!({"amount": 5000, "currency": "USD", "payment_method": "pm_card_ok"});
        body[member] = value;
        DirectCharge::check(serde_json::from_value(body).unwrap())
    }

    #[test]
    fn reference_is_optional() {
        assert_eq!(check("reference", json!(null)).unwrap().reference, None);
        let named = check("reference", json!("Rechnung 4711 é")).unwrap();
        assert_eq!(named.reference.as_deref(), Some("Rechnung 4711 é"));
        assert_eq!(named.amount.amount(), 5_000);
    }

    #[test]
    fn error_names_the_invalid_member() {
        let out_of_range = InvalidCharge::Money(money::Error::OutOfRange);
        let unknown = InvalidCharge::Money(money::Error::UnknownCurrency);
        for (member, value, expected) in [
            ("amount", json!(0), InvalidCharge::Amount),
            ("amount", json!(-5), InvalidCharge::Amount),
            ("amount", json!(i64::MAX), out_of_range),
            ("currency", json!("usd"), unknown),
            (
                "payment_method",
                json!("a b"),
                InvalidPaymentMethod::Name.into(),
            ),
            ("reference", json!(""), InvalidReference.into()),
            ("reference", json!("a\u{0}b"), InvalidReference.into()),
        ] {
            assert_eq!(check(member, value.clone()), Err(expected), "{value}");
        }
    }
}
