//! A topic for one test, and the payments that the test publishes to it.

use std::ops::Deref;

use events::{Envelope, Line, PaymentCaptured};
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
        Self(TestTopic::create("receipt", PARTITIONS).await)
    }

    /// Publishes a captured payment as the relay of the payment service does, in this partition if
    /// given.
    pub(crate) async fn captured(&self, partition: Option<i32>, order_id: Uuid, customer: &str) {
        self.publish_to(partition, &captured(order_id, customer))
            .await;
    }
}

pub(crate) fn captured(order_id: Uuid, customer_id: &str) -> Envelope {
    let event = PaymentCaptured {
        v: 2,
        order_id,
        attempt: 1,
        charge_id: format!("ch_{order_id}"),
        amount: 5_000,
        currency: "USD".parse::<Currency>().unwrap(),
        lines: vec![Line {
            sku: "SKU-1".to_owned(),
            quantity: 2,
        }],
        customer_id: customer_id.to_owned(),
    };
    sealed("payment", &event)
}
