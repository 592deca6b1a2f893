//! An operator redrives parked orders: the provider is called after the commit of the redrive.

use events::{Envelope, FulfilmentRejected, Line, OrderPlaced};
use reqwest::Method;
use serde_json::Value;
use testkit::test_topic::sealed;
use testkit::{TestTopic, operator};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::application::{Running, start};
use crate::harness::{Harness, eventually};
use crate::provider::{key_cancelled, mount_cancellation, mount_captures, request_bodies};

/// The messages of this customer are parked until the test ends the fault.
const PARKED: &str = "parked";
const FAULT: &str = "alter table payments add constraint fault check (customer_id <> 'parked')";
const END_FAULT: &str = "alter table payments drop constraint fault";

/// A redrive writes its audit row last. With this trigger it waits there, with its transaction open. A sequence shows
/// it: others see it before the commit.
const HOLD_REDRIVES: &str = "
    create table hold ();
    insert into hold default values;
    create sequence held;
    create function hold() returns trigger language plpgsql as $$
    begin
        perform nextval('held');
        while exists (select from hold) loop
            perform pg_sleep(0.01);
        end loop;
        return new;
    end $$;
    create trigger hold before insert on audit_log for each row execute function hold();";
const RELEASE_REDRIVES: &str = "delete from hold";

/// A running service with a topic that only it consumes.
struct Consuming {
    topic: TestTopic,
    group: String,
    running: Running,
}

impl Consuming {
    async fn start(harness: &Harness, flags: &[&str]) -> Self {
        let topic = TestTopic::create("payment", 1).await;
        let group = format!("payment-{}", Uuid::new_v4());
        let fixed = [
            ["--kafka-brokers", &topic.brokers],
            ["--kafka-topic", &topic.name],
            ["--kafka-group", &group],
            ["--kafka-fetch-wait-max-ms", "50"],
            ["--message-tries-max", "1"],
            ["--database-statement-timeout-ms", "60000"],
        ];
        let running = start(harness, &[fixed.as_flattened(), flags].concat()).await;
        Self {
            topic,
            group,
            running,
        }
    }

    /// Redrives the only order with parked messages. Returns how many were handled.
    fn redrive(&self) -> JoinHandle<usize> {
        let base = format!("http://127.0.0.1:{}", self.running.operator_port);
        tokio::spawn(async move {
            let client = operator::client().unwrap();
            let parked = format!("{base}/admin/parked");
            let list = client.request(Method::GET, &parked).send().await.unwrap();
            let list: Value = list.json().await.unwrap();
            let redrive = format!("{parked}/{}/redrive", list["data"][0]["id"]);
            let redriven = client.request(Method::POST, &redrive).send().await.unwrap();
            assert_eq!(redriven.status(), 200);
            let redriven: Value = redriven.json().await.unwrap();
            redriven["handled"].as_u64().unwrap() as usize
        })
    }

    /// Publishes the event, and waits until the service has consumed it.
    async fn consume(&self, event: &Envelope) {
        self.topic.publish(event).await;
        // The relay of the service publishes to the same topic.
        let end = self.topic.read().await.len() as i64;
        eventually("the message is consumed", async || {
            let committed = self.topic.committed(&self.group);
            committed.into_iter().flatten().any(|offset| offset >= end)
        })
        .await;
    }

    async fn stop(self) {
        self.running.shutdown.cancel();
        self.running.task.await.unwrap().unwrap();
    }
}

fn placed(order_id: Uuid, customer_id: &str) -> Envelope {
    let event = OrderPlaced {
        v: 2,
        order_id,
        attempt: 1,
        customer_id: customer_id.to_owned(),
        amount: 5_000,
        currency: "USD".parse().unwrap(),
        payment_method: "pm_card_ok".to_owned(),
        lines: vec![Line {
            sku: "SKU-1".to_owned(),
            quantity: 2,
        }],
        principal_id: "acme".to_owned(),
    };
    sealed("order", &event)
}

fn rejected(order_id: Uuid) -> Envelope {
    let event = FulfilmentRejected {
        v: 1,
        order_id,
        attempt: 1,
        reason: "cancelled".to_owned(),
    };
    sealed("fulfilment", &event)
}

/// How many charges of the order the provider received.
async fn charges(harness: &Harness, order: Uuid) -> usize {
    let sent = request_bodies(&harness.psp, "POST", "/v1/charges").await;
    let reference = order.to_string();
    let of_order = sent.iter().filter(|body| body["reference"] == *reference);
    of_order.count()
}

async fn has_status(harness: &Harness, order: Uuid, status: &str) {
    eventually("the attempt has its status", async || {
        harness.payment(order, 1).await.status == status
    })
    .await;
}

#[tokio::test]
async fn redriven_attempt_is_charged_once_after_the_commit() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    // The lease outlasts the test: only the redrive can start the call.
    let service = Consuming::start(&harness, &["--lease-ms", "600000"]).await;
    let [redriven, before, during] = [(); 3].map(|()| Uuid::new_v4());
    harness.execute(FAULT).await;
    service.consume(&placed(redriven, PARKED)).await;
    harness.execute(END_FAULT).await;
    service.consume(&placed(before, "cust-88")).await;
    has_status(&harness, before, "captured").await;

    harness.execute(HOLD_REDRIVES).await;
    let redrive = service.redrive();
    eventually("the redrive has handled its message", async || {
        let held = "select count(*) from held where is_called";
        harness.count(held).await == 1
    })
    .await;
    // A batch of duplicates, then one with a new order.
    service.consume(&placed(before, "cust-88")).await;
    service.consume(&placed(during, "cust-88")).await;
    has_status(&harness, during, "captured").await;
    assert_eq!(charges(&harness, redriven).await, 0, "not committed yet");

    harness.execute(RELEASE_REDRIVES).await;
    assert_eq!(redrive.await.unwrap(), 1);
    has_status(&harness, redriven, "captured").await;
    service.stop().await;
    for order in [redriven, before, during] {
        assert_eq!(charges(&harness, order).await, 1);
        assert_eq!(harness.payment(order, 1).await.tries, 1);
    }
}

/// The redrive stores the attempt leased before it handles the rejection.
#[tokio::test]
async fn redriven_order_that_was_rejected_is_not_charged() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    mount_cancellation(&harness.psp, key_cancelled()).await;
    let flags = ["--lease-ms", "2000", "--psp-timeout-ms", "1000"];
    let service = Consuming::start(&harness, &flags).await;
    // The charger has seen that nothing waits: new attempts are stored leased.
    let before = Uuid::new_v4();
    service.consume(&placed(before, "cust-88")).await;
    has_status(&harness, before, "captured").await;
    let order = Uuid::new_v4();
    harness.execute(FAULT).await;
    service.topic.publish(&placed(order, PARKED)).await;
    service.consume(&rejected(order)).await;
    harness.execute(END_FAULT).await;
    assert_eq!(service.redrive().await.unwrap(), 2);
    has_status(&harness, order, "voided").await;
    service.stop().await;
    assert_eq!(charges(&harness, order).await, 0);
    assert_eq!(harness.event_types(order).await, ["payment.voided"]);
}
