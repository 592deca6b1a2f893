//! The names of the event types: the value of the `ce_type` header. The list is beside the payloads.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::EventType;

/// Defines the enum, [`EventType::ALL`] and the names from one list, so that they cannot differ, and
/// implements `Event` for the payload of each type.
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

        $(impl Event for $variant {
            const TYPE: EventType = EventType::$variant;

            fn order_id(&self) -> Uuid {
                self.order_id
            }

            fn attempt(&self) -> i32 {
                self.attempt
            }
        })+
    };
}

pub(crate) use event_types;

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
