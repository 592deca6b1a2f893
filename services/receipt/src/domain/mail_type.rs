//! The types of mails. Event and type together identify a mail.

use events::EventType;
use service_kit::text_enum;

text_enum! {
    "mail type";
    pub enum MailType {
        /// The payment was captured.
        Receipt = "receipt",
        /// The payment was declined; the customer may pay again.
        Decline = "decline",
        /// The payment failed at the provider; the customer may pay again.
        PaymentFailure = "payment_failure",
        /// The order does not ship, and nothing was charged.
        Cancellation = "cancellation",
        /// The order does not ship, and what was charged is refunded.
        Refund = "refund",
    }
}

impl MailType {
    /// The mail that an event requires, if any.
    pub fn of(event_type: EventType) -> Option<Self> {
        match event_type {
            EventType::PaymentCaptured => Some(Self::Receipt),
            EventType::PaymentDeclined => Some(Self::Decline),
            // Not `payment.failed`: order may open the next attempt automatically.
            EventType::OrderPaymentFailed => Some(Self::PaymentFailure),
            EventType::PaymentVoided | EventType::OrderCancelled => Some(Self::Cancellation),
            EventType::PaymentRefunded => Some(Self::Refund),
            // Not listed by name: a new event type without a mail does not touch this file.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_an_event() {
        for mail_type in MailType::ALL {
            let mut events = EventType::ALL.into_iter();
            assert!(
                events.any(|event| MailType::of(event) == Some(mail_type)),
                "{mail_type}"
            );
        }
    }
}
