//! The list of event types, and the payloads: one struct for each type.
//!
//! Payloads are append-only. A new field has a default, so that old messages stay readable. A field is
//! never removed and never changes its meaning. `v` counts the additions.

use money::{Currency, Money};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::event_type::event_types;

// Each type with its publisher and its consumers. The payload struct below has the name of the
// variant. Names are part of the contract and of every event id: add new ones, and never change or
// reuse one.
event_types! {
    /// published by order, consumed by payment.
    OrderPlaced = "order.placed",
    /// published by order, consumed by payment: the next attempt.
    OrderPaymentRequested = "order.payment_requested",
    /// published by order, consumed by fulfilment only: a request, not a decision.
    OrderCancelRequested = "order.cancel_requested",
    /// published by order, consumed by receipt: a declined order was cancelled. No other service decides.
    OrderCancelled = "order.cancelled",
    /// published by order, consumed by receipt: a payment failed, and order opens no further attempt.
    OrderPaymentFailed = "order.payment_failed",
    /// published by payment, consumed by fulfilment, order and receipt.
    PaymentCaptured = "payment.captured",
    /// published by payment, consumed by order and receipt.
    PaymentDeclined = "payment.declined",
    /// published by payment, consumed by order, which tells the customer: the provider cannot make this payment.
    PaymentFailed = "payment.failed",
    /// published by payment, consumed by order and receipt: the rejected attempt took no money and never will.
    PaymentVoided = "payment.voided",
    /// published by payment, consumed by order and receipt.
    PaymentRefunded = "payment.refunded",
    /// published by fulfilment, consumed by order.
    FulfilmentShipped = "fulfilment.shipped",
    /// published by fulfilment, consumed by payment: the only event that makes it void an attempt or
    /// refund a charge.
    FulfilmentRejected = "fulfilment.rejected",
}

/// A payload that an [`Envelope`](crate::Envelope) can carry.
pub trait Event: Serialize + DeserializeOwned {
    const TYPE: EventType;

    fn order_id(&self) -> Uuid;
    /// The payment attempt that the event belongs to; 1 for the first.
    fn attempt(&self) -> i32;
}

/// One item to ship. It has no price, because fulfilment does not need one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub sku: String,
    pub quantity: u32,
}

/// The order service accepted an order. Carries everything that the first attempt needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderPlaced {
    pub v: u16,
    pub order_id: Uuid,
    pub attempt: i32,
    pub customer_id: String,
    /// In the currency's minor unit.
    #[serde(deserialize_with = "money::deserialize_amount")]
    pub amount: i64,
    pub currency: Currency,
    pub payment_method: String,
    pub lines: Vec<Line>,
    /// The principal that the order belongs to. Added in v 2; empty in older messages.
    #[serde(default)]
    pub principal_id: String,
}

/// The customer pays again after a decline. Carries everything that the next attempt needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderPaymentRequested {
    pub v: u16,
    pub order_id: Uuid,
    pub attempt: i32,
    pub customer_id: String,
    /// In the currency's minor unit.
    #[serde(deserialize_with = "money::deserialize_amount")]
    pub amount: i64,
    pub currency: Currency,
    pub payment_method: String,
    pub lines: Vec<Line>,
    /// The principal that the order belongs to. Added in v 2; empty in older messages.
    #[serde(default)]
    pub principal_id: String,
}

/// The client asks that the order not ship. Only fulfilment acts on this request: it decides whether
/// the order ships.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderCancelRequested {
    pub v: u16,
    pub order_id: Uuid,
    /// The current attempt at the time of the request.
    pub attempt: i32,
}

/// The client cancelled an order whose last attempt was declined. No attempt is open and no money was
/// taken, so the order service cancels it immediately. Other cancelled orders have [`PaymentVoided`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderCancelled {
    pub v: u16,
    pub order_id: Uuid,
    /// The declined attempt.
    pub attempt: i32,
    pub customer_id: String,
    /// Why the order does not ship: `cancelled`.
    pub reason: String,
}

/// A payment failed, and the order waits for its customer. Payment announces every failed attempt
/// ([`PaymentFailed`]); only the order service knows whether it opens the next one automatically.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderPaymentFailed {
    pub v: u16,
    pub order_id: Uuid,
    /// The failed attempt.
    pub attempt: i32,
    pub customer_id: String,
    /// The provider's own code, as in [`PaymentFailed`].
    pub failure_code: String,
    /// What was to be paid.
    pub due: Money,
}

/// The provider captured the money. Carries the lines, so that fulfilment needs no other event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaymentCaptured {
    pub v: u16,
    pub order_id: Uuid,
    pub attempt: i32,
    pub charge_id: String,
    #[serde(deserialize_with = "money::deserialize_amount")]
    pub amount: i64,
    pub currency: Currency,
    pub lines: Vec<Line>,
    /// The customer who paid. Added in v 2; empty in older messages.
    #[serde(default)]
    pub customer_id: String,
}

/// The provider declined the payment method. The customer may pay again with another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaymentDeclined {
    pub v: u16,
    pub order_id: Uuid,
    pub attempt: i32,
    /// The provider's own code, such as `insufficient_funds`.
    pub decline_code: String,
    /// The customer whose payment was declined. Added in v 2; empty in older messages.
    #[serde(default)]
    pub customer_id: String,
    /// What was to be paid. Added in v 2; absent in older messages.
    #[serde(default)]
    pub due: Option<Money>,
}

/// The provider answered with a definite error, and took no money. The order service opens the next attempt,
/// or waits for the customer to pay again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaymentFailed {
    pub v: u16,
    pub order_id: Uuid,
    pub attempt: i32,
    /// The provider's own code, such as `amount_too_small`, or `provider_error`.
    pub failure_code: String,
    /// Nothing is wrong with the payment itself: a further attempt with the same method may succeed.
    pub retry: bool,
    pub customer_id: String,
}

/// The attempt is closed: it took no money and never will.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaymentVoided {
    pub v: u16,
    pub order_id: Uuid,
    pub attempt: i32,
    /// The customer of the order. Added in v 2; empty in older messages, and if the rejection came
    /// before the attempt.
    #[serde(default)]
    pub customer_id: String,
    /// Why the order does not ship, as in [`PaymentRefunded`]. Added in v 2; empty in older messages.
    #[serde(default)]
    pub reason: String,
}

/// The captured amount was refunded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaymentRefunded {
    pub v: u16,
    pub order_id: Uuid,
    pub attempt: i32,
    pub charge_id: String,
    pub refund_id: String,
    #[serde(deserialize_with = "money::deserialize_amount")]
    pub amount: i64,
    pub currency: Currency,
    /// Why the order did not ship, such as `out_of_stock` or `cancelled`.
    pub reason: String,
    /// The customer who gets the money back. Added in v 2; empty in older messages.
    #[serde(default)]
    pub customer_id: String,
}

/// The order shipped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FulfilmentShipped {
    pub v: u16,
    pub order_id: Uuid,
    pub attempt: i32,
}

/// Fulfilment decided that the order does not ship. Payment voids the attempt, or refunds it if money
/// was captured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FulfilmentRejected {
    pub v: u16,
    pub order_id: Uuid,
    pub attempt: i32,
    /// Why the order does not ship: `out_of_stock` or `cancelled`.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placed_without_a_principal_is_readable() {
        let v1 = r#"{"v":1,"order_id":"00000000-0000-0000-0000-000000000007","attempt":1,
            "customer_id":"c","amount":5000,"currency":"USD","payment_method":"pm","lines":[]}"#;
        let placed: OrderPlaced = serde_json::from_str(v1).unwrap();
        assert_eq!(placed.principal_id, "");
        let requested: OrderPaymentRequested = serde_json::from_str(v1).unwrap();
        assert_eq!(requested.principal_id, "");
    }

    /// Such an event is a defect or a forgery. It is parked instead of moving money.
    #[test]
    fn event_with_an_impossible_amount_is_unreadable() {
        let text = |amount: i64| {
            format!(
                r#"{{"v":1,"order_id":"00000000-0000-0000-0000-000000000007","attempt":1,
                "customer_id":"c","amount":{amount},"currency":"USD","payment_method":"pm",
                "charge_id":"ch","refund_id":"re","reason":"cancelled","lines":[]}}"#
            )
        };
        fn reads<E: Event>(text: &str) -> bool {
            serde_json::from_str::<E>(text).is_ok()
        }
        let all = |text: &str| {
            [
                reads::<OrderPlaced>(text),
                reads::<OrderPaymentRequested>(text),
                reads::<PaymentCaptured>(text),
                reads::<PaymentRefunded>(text),
            ]
        };
        assert_eq!(all(&text(money::AMOUNT_MAX)), [true; 4]);
        for amount in [-1, money::AMOUNT_MAX + 1, i64::MIN] {
            assert_eq!(all(&text(amount)), [false; 4], "{amount}");
        }
    }

    #[test]
    fn outcomes_without_a_customer_are_readable() {
        let v1 = r#"{"v":1,"order_id":"00000000-0000-0000-0000-000000000007","attempt":1,
            "decline_code":"card_declined","charge_id":"ch","refund_id":"re","amount":5000,
            "currency":"USD","reason":"cancelled"}"#;
        let declined: PaymentDeclined = serde_json::from_str(v1).unwrap();
        assert_eq!((&*declined.customer_id, declined.due), ("", None));
        let refunded: PaymentRefunded = serde_json::from_str(v1).unwrap();
        assert_eq!(refunded.customer_id, "");
        let v1 = r#"{"v":1,"order_id":"00000000-0000-0000-0000-000000000007","attempt":1}"#;
        let voided: PaymentVoided = serde_json::from_str(v1).unwrap();
        assert_eq!((&*voided.customer_id, &*voided.reason), ("", ""));
    }

    #[test]
    fn captured_without_a_customer_is_readable() {
        let v1 = r#"{"v":1,"order_id":"00000000-0000-0000-0000-000000000007","attempt":1,
            "charge_id":"ch_1","amount":5000,"currency":"USD","lines":[]}"#;
        let event: PaymentCaptured = serde_json::from_str(v1).unwrap();
        assert_eq!(event.customer_id, "");
    }
}
