//! An order as a client requests it, and the checks that it must pass.

use events::Line;
use money::{Currency, InvalidPaymentMethod, InvalidReference, Money, PaymentMethod, Reference};
use serde::Deserialize;
use thiserror::Error;
use utoipa::ToSchema;

/// Maximum number of lines of one order.
pub const ITEMS_MAX: usize = 100;
/// Largest quantity of one line.
pub const QUANTITY_MAX: i64 = 100_000;
/// Longest customer id or SKU, in characters.
pub const TEXT_LEN_MAX: usize = 128;

/// The body of `POST /orders` and `PUT /orders/{id}`.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = OrderRequest)]
pub struct Request {
    #[schema(example = "cust-88")]
    customer_id: String,
    /// Upper-case ISO 4217 code of a currency in use.
    #[schema(example = "USD")]
    currency: String,
    items: Vec<RequestItem>,
    /// The name that the provider gave to the customer's card or account. Never a card number.
    #[schema(
        example = "pm_card_ok",
        min_length = 1,
        max_length = 64,
        pattern = "^[!-~]+$"
    )]
    payment_method: String,
    /// The merchant's own name for this purchase, such as a cart or an invoice. It is unique per
    /// principal and never expires.
    #[schema(example = "cart-4711")]
    #[serde(default)]
    reference: Option<String>,
}

#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = OrderRequestItem)]
pub struct RequestItem {
    #[schema(example = "SKU-99")]
    sku: String,
    #[schema(example = 2)]
    quantity: i64,
    /// In the currency's minor unit.
    #[schema(example = 2500)]
    unit_price: i64,
}

/// A request that passed every check.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    pub customer_id: String,
    pub reference: Option<Reference>,
    pub payment_method: PaymentMethod,
    pub items: Vec<Item>,
    pub total: Money,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub sku: String,
    pub quantity: u32,
    pub unit_price: Money,
}

#[derive(Debug, Error, PartialEq)]
pub enum InvalidDraft {
    #[error("{field} must have 1 to {TEXT_LEN_MAX} characters and no control characters")]
    Text { field: &'static str },
    #[error(transparent)]
    PaymentMethod(#[from] InvalidPaymentMethod),
    #[error(transparent)]
    Reference(#[from] InvalidReference),
    #[error("an order must have 1 to {ITEMS_MAX} items")]
    ItemCount,
    #[error("items[{line}].quantity must be between 1 and {QUANTITY_MAX}")]
    Quantity { line: usize },
    #[error("items[{line}].unit_price must be at least 1 minor unit")]
    UnitPrice { line: usize },
    #[error(transparent)]
    Money(#[from] money::Error),
}

impl Draft {
    pub fn check(request: Request) -> Result<Self, InvalidDraft> {
        check_text("customer_id", &request.customer_id)?;
        let payment_method = PaymentMethod::parse(request.payment_method)?;
        let reference = request.reference.map(Reference::parse).transpose()?;
        if !(1..=ITEMS_MAX).contains(&request.items.len()) {
            return Err(InvalidDraft::ItemCount);
        }
        let currency = Currency::parse_in_use(&request.currency)?;
        let mut total = Money::zero(currency);
        let mut items = Vec::with_capacity(request.items.len());
        for (line, item) in request.items.into_iter().enumerate() {
            let item = check_item(line, item, currency)?;
            total = total.checked_add(item.unit_price.checked_mul(item.quantity)?)?;
            items.push(item);
        }
        Ok(Self {
            customer_id: request.customer_id,
            reference,
            payment_method,
            items,
            total,
        })
    }

    /// The lines for fulfilment to ship.
    pub fn lines(&self) -> Vec<Line> {
        let line = |item: &Item| Line {
            sku: item.sku.clone(),
            quantity: item.quantity,
        };
        self.items.iter().map(line).collect()
    }
}

fn check_item(line: usize, item: RequestItem, currency: Currency) -> Result<Item, InvalidDraft> {
    check_text("sku", &item.sku)?;
    if !(1..=QUANTITY_MAX).contains(&item.quantity) {
        return Err(InvalidDraft::Quantity { line });
    }
    if item.unit_price < 1 {
        return Err(InvalidDraft::UnitPrice { line });
    }
    Ok(Item {
        sku: item.sku,
        // Checked above: at most QUANTITY_MAX.
        quantity: item.quantity as u32,
        unit_price: Money::new(item.unit_price, currency)?,
    })
}

fn check_text(field: &'static str, text: &str) -> Result<(), InvalidDraft> {
    let length = text.chars().count();
    if (1..=TEXT_LEN_MAX).contains(&length) && !text.chars().any(char::is_control) {
        Ok(())
    } else {
        Err(InvalidDraft::Text { field })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn draft(change: impl FnOnce(&mut Value)) -> Result<Draft, InvalidDraft> {
        let mut body = json!({
            "customer_id": "cust-88", "currency": "USD", "payment_method": "pm_card_ok",
            "items": [{"sku": "SKU-99", "quantity": 2, "unit_price": 2500}],
        });
        change(&mut body);
        Draft::check(serde_json::from_value(body).unwrap())
    }

    #[test]
    fn total_is_the_sum_of_the_lines() {
        let draft = draft(|body| {
            let extra = json!({"sku": "SKU-1", "quantity": 3, "unit_price": 100});
            body["items"].as_array_mut().unwrap().push(extra);
        });
        assert_eq!(draft.unwrap().total.amount(), 5_300);
    }

    #[test]
    fn errors_name_the_invalid_member() {
        let line = 0;
        let set = |path: &'static str, value: Value| {
            draft(move |body| *body.pointer_mut(path).unwrap() = value).unwrap_err()
        };
        assert_eq!(set("/items", json!([])), InvalidDraft::ItemCount);
        assert_eq!(
            set("/items/0/quantity", json!(0)),
            InvalidDraft::Quantity { line }
        );
        assert_eq!(
            set("/items/0/quantity", json!(-1)),
            InvalidDraft::Quantity { line }
        );
        assert_eq!(
            set("/items/0/unit_price", json!(0)),
            InvalidDraft::UnitPrice { line }
        );
        assert_eq!(
            set("/items/0/unit_price", json!(-5)),
            InvalidDraft::UnitPrice { line }
        );
        let huge = set("/items/0/unit_price", json!(i64::MAX));
        assert_eq!(huge, InvalidDraft::Money(money::Error::OutOfRange));
        let unknown = set("/currency", json!("DOGE"));
        assert_eq!(unknown, InvalidDraft::Money(money::Error::UnknownCurrency));
        let ended = set("/currency", json!("BGN"));
        assert!(matches!(
            ended,
            InvalidDraft::Money(money::Error::EndedCurrency(_))
        ));
        let control = set("/customer_id", json!("a\u{0}b"));
        assert_eq!(
            control,
            InvalidDraft::Text {
                field: "customer_id"
            }
        );
        let method = set("/payment_method", json!("pm card"));
        assert_eq!(
            method,
            InvalidDraft::PaymentMethod(InvalidPaymentMethod::Name)
        );
        let unnamed = draft(|body| body["reference"] = json!("")).unwrap_err();
        assert_eq!(unnamed, InvalidDraft::Reference(InvalidReference));
        let too_many = vec![json!({"sku": "S", "quantity": 1, "unit_price": 1}); ITEMS_MAX + 1];
        assert_eq!(set("/items", json!(too_many)), InvalidDraft::ItemCount);
    }

    #[test]
    fn total_above_the_limit_is_invalid_and_does_not_wrap() {
        let result = draft(|body| {
            body["items"][0]["quantity"] = json!(QUANTITY_MAX);
            body["items"][0]["unit_price"] = json!(money::AMOUNT_MAX);
        });
        assert_eq!(
            result.unwrap_err(),
            InvalidDraft::Money(money::Error::OutOfRange)
        );
    }
}
