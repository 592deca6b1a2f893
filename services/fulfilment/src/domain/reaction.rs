//! The first event about an order decides whether it ships: its payment or a cancellation request.

use crate::domain::Status;

/// The events about an order that fulfilment reacts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderEvent {
    /// The order is paid.
    PaymentCaptured,
    /// The client asks that the order not ship.
    CancelRequested,
}

/// The decision that already exists for an order, and the payment attempt it applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorDecision {
    pub status: Status,
    pub attempt: i32,
}

/// What fulfilment does about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Try to allocate stock. The order ships if there is enough.
    Allocate,
    /// Reject the order. It does not ship, even if a payment follows.
    Cancel,
    /// Reject this attempt too. The order was rejected under an earlier attempt; without this
    /// rejection, the money of the later attempt would not be refunded.
    RejectAttempt,
    /// Do nothing. The decision exists and was announced when it was made.
    Keep,
}

/// Returns the reaction to an event that belongs to this payment attempt.
pub fn react(prior: Option<PriorDecision>, event: OrderEvent, attempt: i32) -> Reaction {
    let Some(prior) = prior else {
        return match event {
            OrderEvent::PaymentCaptured => Reaction::Allocate,
            OrderEvent::CancelRequested => Reaction::Cancel,
        };
    };
    match prior.status {
        Status::Rejected | Status::Cancelled if attempt > prior.attempt => Reaction::RejectAttempt,
        Status::Paid | Status::Shipped | Status::Rejected | Status::Cancelled => Reaction::Keep,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENTS: [OrderEvent; 2] = [OrderEvent::PaymentCaptured, OrderEvent::CancelRequested];

    #[test]
    fn first_event_decides() {
        let reactions = EVENTS.map(|event| react(None, event, 1));
        assert_eq!(reactions, [Reaction::Allocate, Reaction::Cancel]);
    }

    #[test]
    fn after_a_decision_only_later_attempts_are_rejected() {
        use Reaction::{Keep, RejectAttempt};
        // The event belongs to an earlier, the same, or a later attempt than the decision.
        let expected = [
            (Status::Paid, [Keep, Keep, Keep]),
            (Status::Shipped, [Keep, Keep, Keep]),
            (Status::Rejected, [Keep, Keep, RejectAttempt]),
            (Status::Cancelled, [Keep, Keep, RejectAttempt]),
        ];
        assert_eq!(expected.map(|(status, _)| status), Status::ALL);
        for (status, reactions) in expected {
            let prior = Some(PriorDecision { status, attempt: 2 });
            for event in EVENTS {
                for (attempt, reaction) in (1..).zip(reactions) {
                    let seen = react(prior, event, attempt);
                    assert_eq!(seen, reaction, "{status:?} + {event:?}, attempt {attempt}");
                }
            }
        }
    }
}
