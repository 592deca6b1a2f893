//! A topic for one test, and the events of payment and fulfilment.

use std::ops::Deref;

use events::{
    Envelope, FulfilmentShipped, PaymentCaptured, PaymentDeclined, PaymentFailed, PaymentRefunded,
    PaymentVoided,
};
use money::Currency;
use testkit::TestTopic;
use testkit::test_topic::sealed;
use uuid::Uuid;

/// A topic with the events that this service consumes.
pub(crate) struct Topic(TestTopic);

impl Deref for Topic {
    type Target = TestTopic;

    fn deref(&self) -> &TestTopic {
        &self.0
    }
}

/// The kind of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EventKind {
    Captured,
    Declined,
    /// With a definite error.
    Failed,
    /// With an error that the provider repeats under the attempt's key.
    FailedForRetry,
    Voided,
    Refunded,
    Shipped,
}

impl Topic {
    pub(crate) async fn create() -> Self {
        Self(TestTopic::create("order", 1).await)
    }

    /// Publishes the event as its service's relay would.
    pub(crate) async fn publish_event(&self, order_id: Uuid, attempt: i32, kind: EventKind) {
        self.publish(&seal(order_id, attempt, kind)).await;
    }
}

fn seal(order_id: Uuid, attempt: i32, kind: EventKind) -> Envelope {
    let v = 1;
    let charge_id = format!("ch_{order_id}");
    let (amount, currency) = (5_000, "USD".parse::<Currency>().unwrap());
    match kind {
        EventKind::Captured => sealed(
            "payment",
            &PaymentCaptured {
                v,
                order_id,
                attempt,
                charge_id,
                amount,
                currency,
                lines: vec![],
                customer_id: "cust-88".to_owned(),
            },
        ),
        EventKind::Declined => sealed(
            "payment",
            &PaymentDeclined {
                v,
                order_id,
                attempt,
                decline_code: "card_declined".to_owned(),
                customer_id: "cust-88".to_owned(),
                due: None,
            },
        ),
        EventKind::Failed => failed(order_id, attempt, "amount_too_small", false),
        EventKind::FailedForRetry => failed(order_id, attempt, "provider_error", true),
        EventKind::Voided => sealed(
            "payment",
            &PaymentVoided {
                v,
                order_id,
                attempt,
                customer_id: "cust-88".to_owned(),
                reason: "cancelled".to_owned(),
            },
        ),
        EventKind::Refunded => sealed(
            "payment",
            &PaymentRefunded {
                v,
                order_id,
                attempt,
                charge_id,
                refund_id: format!("re_{order_id}"),
                amount,
                currency,
                reason: "out_of_stock".to_owned(),
                customer_id: "cust-88".to_owned(),
            },
        ),
        EventKind::Shipped => sealed(
            "fulfilment",
            &FulfilmentShipped {
                v,
                order_id,
                attempt,
            },
        ),
    }
}

fn failed(order_id: Uuid, attempt: i32, code: &str, retry: bool) -> Envelope {
    let event = PaymentFailed {
        v: 2,
        order_id,
        attempt,
        failure_code: code.to_owned(),
        retry,
        customer_id: "cust-88".to_owned(),
    };
    sealed("payment", &event)
}
