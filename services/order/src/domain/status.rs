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
    Cancelled,
    Refunded,
}

impl Status {
    pub const ALL: [Self; 6] = [
        Self::Placed,
        Self::Paid,
        Self::Shipped,
        Self::Declined,
        Self::Cancelled,
        Self::Refunded,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Placed => "placed",
            Self::Paid => "paid",
            Self::Shipped => "shipped",
            Self::Declined => "declined",
            Self::Cancelled => "cancelled",
            Self::Refunded => "refunded",
        }
    }

    /// How many states lie behind this one within its attempt. A state that was skipped counts, so
    /// that the version tells of every order whether it came here by legal steps.
    const fn depth(self) -> i32 {
        match self {
            Self::Placed => 0,
            Self::Paid | Self::Declined => 1,
            Self::Shipped | Self::Cancelled | Self::Refunded => 2,
        }
    }

    /// What a change to a later state of the same attempt adds to the version.
    pub const fn steps_to(self, after: Self) -> i32 {
        after.depth() - self.depth()
    }
}

/// The state after the event; `None` if the event changes nothing because it is stale, repeated, or
/// about something that cannot happen from here.
///
/// The events of one service come in order, those of two may not: after the broker lost its data
/// each service publishes its own again. So `placed` may learn of the end before the middle.
pub fn next(status: Status, event: EventType) -> Option<Status> {
    match (status, event) {
        (Status::Placed, EventType::PaymentCaptured) => Some(Status::Paid),
        (Status::Placed, EventType::PaymentDeclined) => Some(Status::Declined),
        (Status::Placed | Status::Paid, EventType::FulfilmentShipped) => Some(Status::Shipped),
        (Status::Placed | Status::Paid, EventType::PaymentRefunded) => Some(Status::Refunded),
        (Status::Placed | Status::Declined, EventType::PaymentVoided) => Some(Status::Cancelled),
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

    /// Every change there is, and what it adds to the version.
    const LEGAL: [(Status, EventType, Status, i32); 8] = [
        (Status::Placed, EventType::PaymentCaptured, Status::Paid, 1),
        (
            Status::Placed,
            EventType::PaymentDeclined,
            Status::Declined,
            1,
        ),
        (
            Status::Placed,
            EventType::FulfilmentShipped,
            Status::Shipped,
            2,
        ),
        (
            Status::Placed,
            EventType::PaymentRefunded,
            Status::Refunded,
            2,
        ),
        (
            Status::Placed,
            EventType::PaymentVoided,
            Status::Cancelled,
            2,
        ),
        (
            Status::Paid,
            EventType::FulfilmentShipped,
            Status::Shipped,
            1,
        ),
        (
            Status::Paid,
            EventType::PaymentRefunded,
            Status::Refunded,
            1,
        ),
        (
            Status::Declined,
            EventType::PaymentVoided,
            Status::Cancelled,
            1,
        ),
    ];

    #[test]
    fn only_these_pairs_of_state_and_event_change_anything() {
        for status in Status::ALL {
            for event in EventType::ALL {
                let expected = LEGAL
                    .iter()
                    .find(|(from, by, ..)| (*from, *by) == (status, event))
                    .map(|(_, _, to, steps)| (*to, *steps));
                let seen = next(status, event).map(|after| (after, status.steps_to(after)));
                assert_eq!(seen, expected, "{status} + {event}");
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

    /// What payment may say of one attempt, and what fulfilment may say with it: however the two
    /// are shuffled, the order ends in the same state with the same version.
    #[test]
    fn however_two_services_events_are_shuffled_the_end_is_the_same() {
        use EventType::{
            FulfilmentRejected, FulfilmentShipped, PaymentCaptured, PaymentDeclined,
            PaymentRefunded, PaymentVoided,
        };
        let stories: [(&[EventType], &[EventType], Status); 5] = [
            (&[PaymentCaptured], &[FulfilmentShipped], Status::Shipped),
            (
                &[PaymentCaptured, PaymentRefunded],
                &[FulfilmentRejected],
                Status::Refunded,
            ),
            (&[PaymentVoided], &[FulfilmentRejected], Status::Cancelled),
            (
                &[PaymentDeclined, PaymentVoided],
                &[FulfilmentRejected],
                Status::Cancelled,
            ),
            (&[PaymentDeclined], &[], Status::Declined),
        ];
        for (payment, fulfilment, end) in stories {
            for shuffled in merges(payment, fulfilment) {
                let (mut status, mut version) = (Status::Placed, 1);
                for event in &shuffled {
                    if let Some(after) = next(status, *event) {
                        version += status.steps_to(after);
                        status = after;
                    }
                }
                assert_eq!((status, version), (end, 1 + end.depth()), "{shuffled:?}");
            }
        }
    }

    /// Every way to merge two lists that keeps the order of each.
    fn merges(left: &[EventType], right: &[EventType]) -> Vec<Vec<EventType>> {
        let (Some((left_first, left_rest)), Some((right_first, right_rest))) =
            (left.split_first(), right.split_first())
        else {
            return vec![[left, right].concat()];
        };
        let with = |first: &EventType, rest: Vec<Vec<EventType>>| {
            let first = *first;
            rest.into_iter()
                .map(move |rest| [vec![first], rest].concat())
        };
        with(left_first, merges(left_rest, right))
            .chain(with(right_first, merges(left, right_rest)))
            .collect()
    }

    #[test]
    fn names_survive_the_round_trip() {
        for status in Status::ALL {
            assert_eq!(status.as_str().parse::<Status>().unwrap(), status);
        }
    }
}
