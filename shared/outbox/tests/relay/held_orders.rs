//! Events that cannot be delivered hold up their own orders only.

use std::time::Duration;

use outbox::StepOutcome;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use reqwest::Method;
use serde_json::Value;
use testkit::TestTopic;
use uuid::Uuid;

use crate::harness::{Harness, audit_row, event, eventually, numbers, oversized};

const TOPIC: &str = "orders";
const PARTITIONS: i32 = 3;
const BROKER: i32 = 1;

/// A broker in this process whose partitions can lose their leaders.
fn cluster() -> MockCluster<'static, DefaultProducerContext> {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(TOPIC, PARTITIONS, 1).unwrap();
    cluster
}

async fn harness_on(cluster: &MockCluster<'_, DefaultProducerContext>) -> Harness {
    let mut harness = Harness::create().await;
    harness.topic = TestTopic::existing(&cluster.bootstrap_servers(), TOPIC, PARTITIONS);
    harness
}

/// Orders that the default partitioner sends to this partition.
fn orders_of(partition: u32, count: usize) -> Vec<Uuid> {
    let is_there =
        |id: &Uuid| crc32fast::hash(id.to_string().as_bytes()) % PARTITIONS as u32 == partition;
    let ids = std::iter::repeat_with(Uuid::new_v4);
    ids.filter(is_there).take(count).collect()
}

async fn held(harness: &Harness) -> i64 {
    sqlx::query_scalar("select count(*) from outbox_held")
        .fetch_one(&harness.pool)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partition_without_leader_holds_up_its_own_orders_only() {
    let cluster = cluster();
    let harness = harness_on(&cluster).await;
    cluster.partition_leader(TOPIC, 0, None).unwrap();
    let stuck = orders_of(0, 40);
    let others = [orders_of(1, 20), orders_of(2, 20)].concat();
    for number in 1..=2 {
        for orders in [&stuck, &others] {
            let events: Vec<_> = orders.iter().map(|id| event(*id, number)).collect();
            harness.write(&events).await;
        }
    }
    let mut settings = harness.settings();
    settings.partition_wait_max = Duration::from_millis(500);
    settings.batch_rows_max = 64;
    let (_shutdown, _task) = harness.run(settings);
    eventually("the other orders are published", async || {
        let sql = "select count(*) from outbox where published_at is null and subject = any($1)";
        let waiting: i64 = sqlx::query_scalar(sql)
            .bind(&others)
            .fetch_one(&harness.pool)
            .await
            .unwrap();
        waiting == 0
    })
    .await;
    eventually("the stuck orders are held", async || {
        held(&harness).await == stuck.len() as i64
    })
    .await;
    // New orders of other partitions continue, new ones of this partition are held.
    let (new_stuck, new_other) = (orders_of(0, 1)[0], orders_of(1, 1)[0]);
    harness
        .write(&[event(new_stuck, 1), event(new_other, 1), event(stuck[0], 3)])
        .await;
    harness.wake.wake();
    eventually("only the new order of partition 0 is held", async || {
        held(&harness).await == stuck.len() as i64 + 1 && harness.unpublished().await == 82
    })
    .await;

    cluster.partition_leader(TOPIC, 0, Some(BROKER)).unwrap();
    harness.all_published().await;
    let messages = harness.topic.read().await;
    for order in others {
        assert_eq!(first_times(numbers(&messages, order)), [1, 2]);
    }
    assert_eq!(first_times(numbers(&messages, stuck[0])), [1, 2, 3]);
    for order in &stuck[1..] {
        assert_eq!(first_times(numbers(&messages, *order)), [1, 2]);
    }
    assert_eq!(held(&harness).await, 0);
}

/// The numbers without repeats. A message that was given up may have been delivered after all.
fn first_times(mut numbers: Vec<i32>) -> Vec<i32> {
    let mut seen = std::collections::BTreeSet::new();
    numbers.retain(|number| seen.insert(*number));
    numbers
}

#[tokio::test]
async fn rejected_event_is_held_with_its_order() {
    let harness = Harness::create().await;
    let (stuck, other) = (Uuid::new_v4(), Uuid::new_v4());
    harness
        .write(&[oversized(stuck, 1), event(stuck, 2), event(other, 1)])
        .await;
    let mut relay = harness.relay(harness.settings());
    let step = relay.step().await.unwrap();
    let (published, held_rows) = (1, 2);
    assert_eq!(
        step,
        StepOutcome::Held {
            published,
            held: held_rows
        }
    );
    harness.write(&[event(stuck, 3), event(other, 2)]).await;
    let step = relay.step().await.unwrap();
    let (published, held_rows) = (1, 1);
    assert_eq!(
        step,
        StepOutcome::Held {
            published,
            held: held_rows
        }
    );
    assert_eq!(relay.step().await.unwrap(), StepOutcome::Idle);
    let messages = harness.topic.read().await;
    assert_eq!(numbers(&messages, other), [1, 2]);
    assert_eq!(messages.len(), 2, "no event of the held order");
}

#[tokio::test]
async fn operator_lists_and_retries_held_orders() {
    let harness = Harness::create().await;
    let stuck = Uuid::new_v4();
    harness.write(&[oversized(stuck, 1), event(stuck, 2)]).await;
    let (_shutdown, _task) = harness.run(harness.settings());
    eventually("the order is held", async || held(&harness).await == 1).await;
    // What an operator does about an event that is too large: repair it, or raise the broker's limit.
    let repaired = event(stuck, 1).payload;
    sqlx::query("update outbox set payload = $1 where held and id = (select min(id) from outbox)")
        .bind(repaired)
        .execute(&harness.pool)
        .await
        .unwrap();
    let url = harness.operator_url().await;
    let client = testkit::operator::client().unwrap();
    let held_url = format!("{url}/admin/outbox/held");
    let listed = client.call(Method::GET, &held_url, None).await.unwrap();
    assert_eq!(listed[0]["order_id"], stuck.to_string());
    assert_eq!(listed[0]["kafka_partition"], Value::Null);
    let retry = async |order: Uuid| {
        let url = format!("{url}/admin/outbox/held/{order}/retry");
        let retry = client.request(Method::POST, &url).send();
        retry.await.unwrap().status().as_u16()
    };
    assert_eq!(retry(Uuid::new_v4()).await, 404);
    assert_eq!(retry(stuck).await, 204);
    harness.all_published().await;
    assert_eq!(numbers(&harness.topic.read().await, stuck), [1, 2]);
    assert_eq!(retry(stuck).await, 404);
    // Only the retry that changed something is in the audit log.
    let expected = [audit_row("outbox.retry", &stuck.to_string())];
    assert_eq!(harness.audit().await, expected);
}
