use uuid::Uuid;

use crate::harness::{Harness, eventually};
use crate::topic::PARTITIONS;

const LEDGER: &str = "select count(*) from processed_messages";

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
async fn an_order_ships_once_however_often_its_payment_is_announced() {
    let harness = Harness::create(&[("SKU-1", 1_000)]).await;
    let orders: Vec<Uuid> = (0..20).map(|_| Uuid::new_v4()).collect();
    let announce = async || {
        for order in &orders {
            harness.topic.captured(*order, &[("SKU-1", 2)]).await;
        }
    };
    for _ in 0..3 {
        announce().await;
    }
    let running = harness.start(&harness.group).await;
    harness.decided(20).await;
    running.stop().await;

    // Once more, to another process; then one new order behind all that in each partition, to
    // know when everything was read.
    announce().await;
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
    assert_eq!(harness.count(LEDGER).await, 20 + i64::from(PARTITIONS));
}

#[tokio::test]
async fn a_new_group_that_reads_everything_again_ships_nothing_again() {
    let harness = Harness::create(&[("SKU-1", 1_000)]).await;
    for _ in 0..10 {
        let order = Uuid::new_v4();
        harness.topic.captured(order, &[("SKU-1", 2)]).await;
    }
    let running = harness.start(&harness.group).await;
    harness.decided(10).await;
    running.stop().await;

    // Its ledger is empty: only the shipments themselves know.
    let other = format!("fulfilment-{}", Uuid::new_v4());
    let running = harness.start(&other).await;
    eventually("the other group has read everything", async || {
        harness.count(LEDGER).await == 20
    })
    .await;
    running.stop().await;
    shipped_once(&harness, 10).await;
}

#[tokio::test]
async fn what_is_decided_is_announced_to_the_others() {
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
