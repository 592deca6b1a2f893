//! A topic for one test, and what payment and fulfilment announce on it.

use std::ops::Deref;

use events::{
    Envelope, Event, FulfilmentShipped, Origin, PaymentCaptured, PaymentDeclined, PaymentRefunded,
    PaymentVoided,
};
use money::Currency;
use testkit::TestTopic;
use uuid::Uuid;

/// The test's own topic, and the events that this service consumes.
pub(crate) struct Topic(TestTopic);

impl Deref for Topic {
    type Target = TestTopic;

    fn deref(&self) -> &TestTopic {
        &self.0
    }
}

/// What an event says, besides which order and attempt it is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Says {
    Captured,
    Declined,
    Voided,
    Refunded,
    Shipped,
}

impl Topic {
    pub(crate) async fn create() -> Self {
        Self(TestTopic::create("order", 1).await)
    }

    /// Announces it as the relay of the service that says it does.
    pub(crate) async fn say(&self, order_id: Uuid, attempt: i32, what: Says) {
        self.publish(&seal(order_id, attempt, what)).await;
    }
}

fn seal(order_id: Uuid, attempt: i32, what: Says) -> Envelope {
    let v = 1;
    let charge_id = format!("ch_{order_id}");
    let (amount, currency) = (5_000, "USD".parse::<Currency>().unwrap());
    match what {
        Says::Captured => by(
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
        Says::Declined => by(
            "payment",
            &PaymentDeclined {
                v,
                order_id,
                attempt,
                decline_code: "card_declined".to_owned(),
            },
        ),
        Says::Voided => by(
            "payment",
            &PaymentVoided {
                v,
                order_id,
                attempt,
            },
        ),
        Says::Refunded => by(
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
            },
        ),
        Says::Shipped => by(
            "fulfilment",
            &FulfilmentShipped {
                v,
                order_id,
                attempt,
            },
        ),
    }
}

fn by(source: &'static str, event: &impl Event) -> Envelope {
    let origin = Origin {
        source,
        correlation_id: "c-1",
        traceparent: None,
    };
    Envelope::seal(origin, event).unwrap()
}
