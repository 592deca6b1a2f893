//! A topic for one test, and the events that the test publishes to it.

use std::ops::Deref;

use events::{Line, OrderCancelRequested, PaymentCaptured};
use money::Currency;
use testkit::TestTopic;
use testkit::test_topic::sealed;
use uuid::Uuid;

pub(crate) const PARTITIONS: i32 = 3;

/// The topic of one test, with the events that this service consumes.
pub(crate) struct Topic(TestTopic);

impl Deref for Topic {
    type Target = TestTopic;

    fn deref(&self) -> &TestTopic {
        &self.0
    }
}

impl Topic {
    pub(crate) async fn create() -> Self {
        Self(TestTopic::create("fulfilment", PARTITIONS).await)
    }

    /// Publishes a captured payment as the relay of the payment service does.
    pub(crate) async fn captured(&self, order_id: Uuid, lines: &[(&str, u32)]) {
        self.captured_in(None, order_id, lines).await;
    }

    /// The same, in this partition.
    pub(crate) async fn captured_in(
        &self,
        partition: Option<i32>,
        order_id: Uuid,
        lines: &[(&str, u32)],
    ) {
        let event = captured(order_id, 1, lines);
        self.publish_to(partition, &sealed("payment", &event)).await;
    }

    /// The same, for this attempt.
    pub(crate) async fn captured_by(&self, order_id: Uuid, attempt: i32, lines: &[(&str, u32)]) {
        let event = captured(order_id, attempt, lines);
        self.publish(&sealed("payment", &event)).await;
    }

    /// Publishes a cancellation request as the relay of the order service does.
    pub(crate) async fn cancel_requested(&self, order_id: Uuid) {
        let event = OrderCancelRequested {
            v: 1,
            order_id,
            attempt: 1,
        };
        self.publish(&sealed("order", &event)).await;
    }
}

fn captured(order_id: Uuid, attempt: i32, lines: &[(&str, u32)]) -> PaymentCaptured {
    let line = |(sku, quantity): &(&str, u32)| Line {
        sku: (*sku).to_owned(),
        quantity: *quantity,
    };
    PaymentCaptured {
        v: 1,
        order_id,
        attempt,
        charge_id: format!("ch_{order_id}"),
        amount: 5_000,
        currency: "USD".parse::<Currency>().unwrap(),
        lines: lines.iter().map(line).collect(),
        customer_id: "cust-88".to_owned(),
    }
}
