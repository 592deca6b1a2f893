//! The event types: the value of the `ce_type` header.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Defines the enum, [`EventType::ALL`] and the names from one list, so that they cannot differ.
macro_rules! event_types {
    ($($(#[$meta:meta])* $variant:ident = $name:literal,)+) => {
        /// One variant for each payload struct of the same name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum EventType {
            $(#[doc = concat!("`", $name, "`: ")] $(#[$meta])* $variant,)+
        }

        impl EventType {
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// The value of the `ce_type` header.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

// Each type with its publisher and its consumers. Names are part of the contract and of every event id: add new
// ones, and never change or reuse one.
event_types! {
    /// published by order, consumed by payment.
    OrderPlaced = "order.placed",
    /// published by order, consumed by payment: the next attempt.
    OrderPaymentRequested = "order.payment_requested",
    /// published by order, consumed by fulfilment only: a request, not a decision.
    OrderCancelRequested = "order.cancel_requested",
    /// published by payment, consumed by fulfilment, order and receipt.
    PaymentCaptured = "payment.captured",
    /// published by payment, consumed by order.
    PaymentDeclined = "payment.declined",
    /// published by payment, consumed by order: the rejected attempt took no money and never will.
    PaymentVoided = "payment.voided",
    /// published by payment, consumed by order.
    PaymentRefunded = "payment.refunded",
    /// published by fulfilment, consumed by order.
    FulfilmentShipped = "fulfilment.shipped",
    /// published by fulfilment, consumed by payment: the only event that makes it void an attempt or
    /// refund a charge.
    FulfilmentRejected = "fulfilment.rejected",
}

#[derive(Debug, Error)]
#[error("unknown event type {0:?}")]
pub struct UnknownEventType(String);

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
            .find(|event_type| event_type.as_str() == name)
            .ok_or_else(|| UnknownEventType(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name used twice would parse as the first type that has it.
    #[test]
    fn every_name_parses_back_to_its_type() {
        for event_type in EventType::ALL {
            let parsed: EventType = event_type.as_str().parse().unwrap();
            assert_eq!(parsed, event_type);
        }
    }

    #[test]
    fn unknown_names_are_rejected() {
        for name in ["", "order", "order.placed ", "Order.Placed", "order.lost"] {
            let error = EventType::from_str(name).unwrap_err().to_string();
            assert!(error.contains("unknown event type"), "{error}");
        }
    }
}
