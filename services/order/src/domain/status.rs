//! The status of an order, and which event leads from which status to which.
//!
//! An order's version counts steps, not updates. It starts at [`FIRST_VERSION`]; a change of status
//! adds [`Status::steps_to`], a cancellation request adds 1, and a new attempt adds 1.

use events::EventType;
use serde::{Deserialize, Serialize};
use service_kit::text_enum;
use utoipa::ToSchema;

/// The version of a new order.
pub const FIRST_VERSION: i32 = 1;

text_enum! {
    "order status";
    #[derive(Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Status {
        Placed = "placed",
        Paid = "paid",
        Shipped = "shipped",
        Declined = "declined",
        /// The provider cannot make the payment. As after a decline, the customer may pay again.
        Failed = "failed",
        Cancelled = "cancelled",
        Refunded = "refunded",
    }
}

impl Status {
    /// The number of steps from `placed` to this status within one attempt. Every legal path to a
    /// status has the same number, because a skipped status counts as a step. So an order's version
    /// shows whether it got here by legal steps.
    const fn depth(self) -> i32 {
        match self {
            Self::Placed => 0,
            Self::Paid | Self::Declined | Self::Failed => 1,
            Self::Shipped | Self::Cancelled | Self::Refunded => 2,
        }
    }

    /// Whether the order ended, at least for now, without being shipped. There are few such orders, and the
    /// column `ended_status` has them.
    pub const fn is_ended_unshipped(self) -> bool {
        match self {
            Self::Declined | Self::Failed | Self::Cancelled | Self::Refunded => true,
            Self::Placed | Self::Paid | Self::Shipped => false,
        }
    }

    /// The number that a change to a later status of the same attempt adds to the version: 1 per
    /// step, skipped steps included. `placed` to `shipped` adds 2, with or without `paid` in
    /// between.
    pub const fn steps_to(self, after: Self) -> i32 {
        after.depth() - self.depth()
    }
}

/// The status after the event. `None` if the event changes nothing: it is stale or repeated, or is
/// not possible from this status.
///
/// The events of one service arrive in order. Those of two services may not: after the broker has
/// lost its data, each service publishes its own events again. So a `placed` order may receive
/// `fulfilment.shipped` before `payment.captured`.
pub fn next(status: Status, event: EventType) -> Option<Status> {
    match (status, event) {
        (Status::Placed, EventType::PaymentCaptured) => Some(Status::Paid),
        (Status::Placed, EventType::PaymentDeclined) => Some(Status::Declined),
        (Status::Placed, EventType::PaymentFailed) => Some(Status::Failed),
        (Status::Placed | Status::Paid, EventType::FulfilmentShipped) => Some(Status::Shipped),
        (Status::Placed | Status::Paid, EventType::PaymentRefunded) => Some(Status::Refunded),
        (Status::Placed | Status::Declined | Status::Failed, EventType::PaymentVoided) => {
            Some(Status::Cancelled)
        }
        _ => None,
    }
}

/// The status to which an event of this attempt applies, and what catching up with the attempt adds to
/// the version. `None` for an earlier attempt: its outcome is stale.
///
/// An event of a later attempt than the order's shows that this database was restored to an older state:
/// it does not know that the customer paid again. Each attempt in between took two steps: to `declined`
/// or `failed`, and back to `placed`.
pub fn catch_up(status: Status, attempt: i32, of_event: i32) -> Option<(Status, i32)> {
    if of_event == attempt {
        return Some((status, 0));
    }
    let can_pay_again = matches!(status, Status::Placed | Status::Declined | Status::Failed);
    let steps = 2 * (of_event - attempt) - status.depth();
    (of_event > attempt && can_pay_again).then_some((Status::Placed, steps))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_of_a_lost_attempt_applies_to_that_attempt() {
        for status in Status::ALL {
            let version = |attempt: i32, status: Status| 2 * attempt - 1 + status.depth();
            assert_eq!(catch_up(status, 2, 1), None, "stale");
            assert_eq!(catch_up(status, 2, 2), Some((status, 0)));
            let later = catch_up(status, 2, 4);
            match status {
                Status::Placed | Status::Declined | Status::Failed => {
                    let (now, steps) = later.unwrap();
                    assert_eq!(now, Status::Placed);
                    assert_eq!(version(2, status) + steps, version(4, now), "{status}");
                }
                Status::Paid | Status::Shipped | Status::Cancelled | Status::Refunded => {
                    assert_eq!(later, None, "{status}");
                }
            }
        }
    }

    /// Every legal change, and what it adds to the version.
    const LEGAL: [(Status, EventType, Status, i32); 10] = [
        (Status::Placed, EventType::PaymentCaptured, Status::Paid, 1),
        (
            Status::Placed,
            EventType::PaymentDeclined,
            Status::Declined,
            1,
        ),
        (Status::Placed, EventType::PaymentFailed, Status::Failed, 1),
        (
            Status::Failed,
            EventType::PaymentVoided,
            Status::Cancelled,
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
    fn only_legal_pairs_of_status_and_event_change_the_status() {
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
    fn repeated_event_changes_nothing() {
        for status in Status::ALL {
            for event in EventType::ALL {
                if let Some(after) = next(status, event) {
                    assert_eq!(next(after, event), None, "{status} + {event} twice");
                }
            }
        }
    }

    /// The events of payment and of fulfilment for one attempt, in every interleaving: the order ends
    /// with the same status and version.
    #[test]
    fn interleaving_of_two_services_does_not_change_the_end() {
        use EventType::{
            FulfilmentRejected, FulfilmentShipped, PaymentCaptured, PaymentDeclined, PaymentFailed,
            PaymentRefunded, PaymentVoided,
        };
        let cases: [(&[EventType], &[EventType], Status); 7] = [
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
            (&[PaymentFailed], &[], Status::Failed),
            (
                &[PaymentFailed, PaymentVoided],
                &[FulfilmentRejected],
                Status::Cancelled,
            ),
        ];
        for (payment, fulfilment, end) in cases {
            for interleaved in merges(payment, fulfilment) {
                let (mut status, mut version) = (Status::Placed, FIRST_VERSION);
                for event in &interleaved {
                    if let Some(after) = next(status, *event) {
                        version += status.steps_to(after);
                        status = after;
                    }
                }
                let expected = (end, FIRST_VERSION + end.depth());
                assert_eq!((status, version), expected, "{interleaved:?}");
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
    fn status_names_round_trip() {
        for status in Status::ALL {
            assert_eq!(status.as_str().parse::<Status>().unwrap(), status);
        }
    }
}
