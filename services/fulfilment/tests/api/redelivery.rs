use uuid::Uuid;

use crate::topic::PARTITIONS;
use crate::world::{World, eventually};

const LEDGER: &str = "select count(*) from processed_messages";

async fn shipped_once(world: &World, orders: i64) {
    assert_eq!(world.shipments("shipped").await, orders);
    assert_eq!(world.events("fulfilment.shipped").await, orders);
    assert_eq!(world.count("select count(*) from outbox").await, orders);
    assert_eq!(world.stock("SKU-1").await, (1_000 - 2 * orders, 2 * orders));
}

#[tokio::test]
async fn an_order_ships_once_however_often_its_payment_is_announced() {
    let world = World::create(&[("SKU-1", 1_000)]).await;
    let orders: Vec<Uuid> = (0..20).map(|_| Uuid::new_v4()).collect();
    let announce = async || {
        for order in &orders {
            world.topic.captured(*order, &[("SKU-1", 2)]).await;
        }
    };
    for _ in 0..3 {
        announce().await;
    }
    let running = world.start(&world.group).await;
    world.decided(20).await;
    running.stop().await;

    // Once more, to another process; then one new order behind all that in each partition, to
    // know when everything was read.
    announce().await;
    for partition in 0..PARTITIONS {
        let last = Uuid::new_v4();
        let lines = [("SKU-1", 2)];
        world.topic.captured_in(Some(partition), last, &lines).await;
    }
    let running = world.start(&world.group).await;
    world.decided(20 + i64::from(PARTITIONS)).await;
    running.stop().await;
    shipped_once(&world, 20 + i64::from(PARTITIONS)).await;
    assert_eq!(world.count(LEDGER).await, 20 + i64::from(PARTITIONS));
}

#[tokio::test]
async fn a_new_group_that_reads_everything_again_ships_nothing_again() {
    let world = World::create(&[("SKU-1", 1_000)]).await;
    for _ in 0..10 {
        let order = Uuid::new_v4();
        world.topic.captured(order, &[("SKU-1", 2)]).await;
    }
    let running = world.start(&world.group).await;
    world.decided(10).await;
    running.stop().await;

    // Its ledger is empty: only the shipments themselves know.
    let other = format!("fulfilment-{}", Uuid::new_v4());
    let running = world.start(&other).await;
    eventually("the other group has read everything", async || {
        world.count(LEDGER).await == 20
    })
    .await;
    running.stop().await;
    shipped_once(&world, 10).await;
}

#[tokio::test]
async fn what_is_decided_is_announced_to_the_others() {
    let world = World::create(&[("SKU-1", 1_000)]).await;
    let order = Uuid::new_v4();
    world.topic.captured(order, &[("SKU-1", 2)]).await;
    let running = world.start(&world.group).await;
    eventually("the event is published", async || {
        let published = "select count(*) from outbox where published_at is not null";
        world.count(published).await == 1
    })
    .await;
    running.stop().await;
    let (subject, correlation_id): (Uuid, String) =
        sqlx::query_as("select subject, correlation_id from outbox")
            .fetch_one(&world.pool)
            .await
            .unwrap();
    assert_eq!(subject, order);
    assert_eq!(correlation_id, format!("corr-{order}"));
}
