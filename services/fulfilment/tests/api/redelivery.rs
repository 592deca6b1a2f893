//! A redelivered or republished message ships nothing again.

use uuid::Uuid;

use crate::harness::{Harness, eventually};
use crate::topic::PARTITIONS;

const PROCESSED: &str = "select count(*) from processed_messages";

async fn shipped_once(harness: &Harness, orders: i64) {
    assert_eq!(harness.shipments("shipped").await, orders);
    assert_eq!(harness.events("fulfilment.shipped").await, orders);
    assert_eq!(harness.count("select count(*) from outbox").await, orders);
    assert_eq!(
        harness.stock("SKU-1").await,
        (1_000 - 2 * orders, 2 * orders)
    );
}

#[tokio::test]
async fn order_ships_once_when_its_payment_is_published_many_times() {
    let harness = Harness::create(&[("SKU-1", 1_000)]).await;
    let orders: Vec<Uuid> = (0..20).map(|_| Uuid::new_v4()).collect();
    let publish = async || {
        for order in &orders {
            harness.topic.captured(*order, &[("SKU-1", 2)]).await;
        }
    };
    for _ in 0..3 {
        publish().await;
    }
    let running = harness.start(&harness.group).await;
    harness.decided(20).await;
    running.stop().await;

    // Publish again, for another process. One new order at the end of each partition shows when
    // everything was read.
    publish().await;
    for partition in 0..PARTITIONS {
        let last = Uuid::new_v4();
        let lines = [("SKU-1", 2)];
        harness
            .topic
            .captured_in(Some(partition), last, &lines)
            .await;
    }
    let running = harness.start(&harness.group).await;
    harness.decided(20 + i64::from(PARTITIONS)).await;
    running.stop().await;
    shipped_once(&harness, 20 + i64::from(PARTITIONS)).await;
    assert_eq!(harness.count(PROCESSED).await, 20 + i64::from(PARTITIONS));
}

#[tokio::test]
async fn new_consumer_group_ships_nothing_again() {
    let harness = Harness::create(&[("SKU-1", 1_000)]).await;
    for _ in 0..10 {
        let order = Uuid::new_v4();
        harness.topic.captured(order, &[("SKU-1", 2)]).await;
    }
    let running = harness.start(&harness.group).await;
    harness.decided(10).await;
    running.stop().await;

    // The new group has no processed messages: only the row of the shipment prevents a second shipment.
    let other = format!("fulfilment-{}", Uuid::new_v4());
    let running = harness.start(&other).await;
    eventually("the new group has read everything", async || {
        harness.count(PROCESSED).await == 20
    })
    .await;
    running.stop().await;
    shipped_once(&harness, 10).await;
}

#[tokio::test]
async fn decision_is_published() {
    let harness = Harness::create(&[("SKU-1", 1_000)]).await;
    let order = Uuid::new_v4();
    harness.topic.captured(order, &[("SKU-1", 2)]).await;
    let running = harness.start(&harness.group).await;
    eventually("the event is published", async || {
        let published = "select count(*) from outbox where published_at is not null";
        harness.count(published).await == 1
    })
    .await;
    running.stop().await;
    let (subject, correlation_id): (Uuid, String) =
        sqlx::query_as("select subject, correlation_id from outbox")
            .fetch_one(&harness.pool)
            .await
            .unwrap();
    assert_eq!(subject, order);
    assert_eq!(correlation_id, format!("corr-{order}"));
}
