//! The states of an order, and which event leads from which to which.

use std::fmt;
use std::str::FromStr;

use events::EventType;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Placed,
    Paid,
    Shipped,
    Declined,
}

impl Status {
    pub const ALL: [Self; 4] = [Self::Placed, Self::Paid, Self::Shipped, Self::Declined];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Placed => "placed",
            Self::Paid => "paid",
            Self::Shipped => "shipped",
            Self::Declined => "declined",
        }
    }
}

/// The state after the event; `None` if the event changes nothing because it is stale, repeated, or
/// about something that cannot happen from here.
pub fn next(status: Status, event: EventType) -> Option<Status> {
    match (status, event) {
        (Status::Placed, EventType::PaymentCaptured) => Some(Status::Paid),
        (Status::Placed, EventType::PaymentDeclined) => Some(Status::Declined),
        (Status::Paid, EventType::FulfilmentShipped) => Some(Status::Shipped),
        _ => None,
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("unknown order status {0:?}")]
pub struct UnknownStatus(String);

impl FromStr for Status {
    type Err = UnknownStatus;

    fn from_str(name: &str) -> Result<Self, UnknownStatus> {
        Self::ALL
            .into_iter()
            .find(|status| status.as_str() == name)
            .ok_or_else(|| UnknownStatus(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_these_three_pairs_of_state_and_event_change_anything() {
        let legal = [
            (Status::Placed, EventType::PaymentCaptured, Status::Paid),
            (Status::Placed, EventType::PaymentDeclined, Status::Declined),
            (Status::Paid, EventType::FulfilmentShipped, Status::Shipped),
        ];
        for status in Status::ALL {
            for event in EventType::ALL {
                let expected = legal
                    .iter()
                    .find(|(from, by, _)| (*from, *by) == (status, event))
                    .map(|(_, _, to)| *to);
                assert_eq!(next(status, event), expected, "{status} + {event}");
            }
        }
    }

    #[test]
    fn an_event_that_comes_again_changes_nothing() {
        for status in Status::ALL {
            for event in EventType::ALL {
                if let Some(after) = next(status, event) {
                    assert_eq!(next(after, event), None, "{status} + {event} twice");
                }
            }
        }
    }

    #[test]
    fn names_survive_the_round_trip() {
        for status in Status::ALL {
            assert_eq!(status.as_str().parse::<Status>().unwrap(), status);
        }
    }
}
