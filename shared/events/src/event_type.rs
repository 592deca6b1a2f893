//! The names of the events: the `ce_type` header on the wire.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventType {
    OrderPlaced,
    OrderPaymentRequested,
    OrderCancelRequested,
    PaymentCaptured,
    PaymentDeclined,
    PaymentVoided,
    PaymentRefunded,
    FulfilmentShipped,
    FulfilmentRejected,
}

#[derive(Debug, Error)]
#[error("unknown event type {0:?}")]
pub struct UnknownEventType(String);

impl EventType {
    pub const ALL: [Self; 9] = [
        Self::OrderPlaced,
        Self::OrderPaymentRequested,
        Self::OrderCancelRequested,
        Self::PaymentCaptured,
        Self::PaymentDeclined,
        Self::PaymentVoided,
        Self::PaymentRefunded,
        Self::FulfilmentShipped,
        Self::FulfilmentRejected,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OrderPlaced => "order.placed",
            Self::OrderPaymentRequested => "order.payment_requested",
            Self::OrderCancelRequested => "order.cancel_requested",
            Self::PaymentCaptured => "payment.captured",
            Self::PaymentDeclined => "payment.declined",
            Self::PaymentVoided => "payment.voided",
            Self::PaymentRefunded => "payment.refunded",
            Self::FulfilmentShipped => "fulfilment.shipped",
            Self::FulfilmentRejected => "fulfilment.rejected",
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for EventType {
    type Err = UnknownEventType;

    fn from_str(name: &str) -> Result<Self, UnknownEventType> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == name)
            .ok_or_else(|| UnknownEventType(name.to_owned()))
    }
}
