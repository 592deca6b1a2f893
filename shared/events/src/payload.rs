//! The payloads. Append-only: a field may be added with a default, never removed or given another
//! meaning; `v` counts such additions.

use money::Currency;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::EventType;

pub trait Event: Serialize + DeserializeOwned {
    const TYPE: EventType;

    fn order_id(&self) -> Uuid;
    /// The payment attempt that the event belongs to; 1 for the first.
    fn attempt(&self) -> i32;
}

/// What is to be shipped. Prices stay with the order: fulfilment has no use for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub sku: String,
    pub quantity: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderPlaced {
    pub v: u16,
    pub order_id: Uuid,
    pub attempt: i32,
    pub customer_id: String,
    /// In the currency's minor unit.
    pub amount: i64,
    pub currency: Currency,
    pub payment_method: String,
    pub lines: Vec<Line>,
}

/// A customer whose card was declined pays again: the next attempt, with all that it needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderPaymentRequested {
    pub v: u16,
    pub order_id: Uuid,
    pub attempt: i32,
    pub customer_id: String,
    /// In the currency's minor unit.
    pub amount: i64,
    pub currency: Currency,
    pub payment_method: String,
    pub lines: Vec<Line>,
}

/// Somebody no longer wants the order. A wish, not a fact: fulfilment decides between ship and
/// cancel, and nobody acts on this but fulfilment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderCancelRequested {
    pub v: u16,
    pub order_id: Uuid,
    /// The attempt in force when it was asked for.
    pub attempt: i32,
}

/// Carries the lines along, so that fulfilment needs no other event to act.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaymentCaptured {
    pub v: u16,
    pub order_id: Uuid,
    pub attempt: i32,
    pub charge_id: String,
    pub amount: i64,
    pub currency: Currency,
    pub lines: Vec<Line>,
    /// Who paid; since v 2, empty before.
    #[serde(default)]
    pub customer_id: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaymentDeclined {
    pub v: u16,
    pub order_id: Uuid,
    pub attempt: i32,
    /// The provider's own code, such as `insufficient_funds`.
    pub decline_code: String,
}

/// The attempt is closed: it took no money and never will.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaymentVoided {
    pub v: u16,
    pub order_id: Uuid,
    pub attempt: i32,
}

/// What was captured has been given back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaymentRefunded {
    pub v: u16,
    pub order_id: Uuid,
    pub attempt: i32,
    pub charge_id: String,
    pub refund_id: String,
    pub amount: i64,
    pub currency: Currency,
    /// Why it did not ship, such as `out_of_stock` or `cancelled`.
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FulfilmentShipped {
    pub v: u16,
    pub order_id: Uuid,
    pub attempt: i32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FulfilmentRejected {
    pub v: u16,
    pub order_id: Uuid,
    pub attempt: i32,
    /// Why it does not ship: `out_of_stock` or `cancelled`. The attempt's money, if any was or still
    /// is being taken, goes back.
    pub reason: String,
}

macro_rules! events {
    ($($payload:ident),+ $(,)?) => {
        $(impl Event for $payload {
            const TYPE: EventType = EventType::$payload;

            fn order_id(&self) -> Uuid {
                self.order_id
            }

            fn attempt(&self) -> i32 {
                self.attempt
            }
        })+
    };
}

events!(
    OrderPlaced,
    OrderPaymentRequested,
    OrderCancelRequested,
    PaymentCaptured,
    PaymentDeclined,
    PaymentVoided,
    PaymentRefunded,
    FulfilmentShipped,
    FulfilmentRejected,
);
