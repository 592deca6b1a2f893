//! Stock is never oversold, and an order gets all its lines or none.

use std::collections::BTreeMap;

use fulfilment::store::stock;
use uuid::Uuid;

use crate::harness::Harness;

#[tokio::test]
async fn replicas_together_never_oversell() {
    let harness = Harness::create(&[("SKU-1", 50), ("SKU-2", 1_000)]).await;
    let first = harness.start(&harness.group).await;
    let second = harness.start(&harness.group).await;
    // Orders name the two SKUs in both orders: batches must not deadlock on the stock rows.
    for number in 0..60 {
        let lines = match number % 2 {
            0 => [("SKU-1", 2), ("SKU-2", 1)],
            _ => [("SKU-2", 1), ("SKU-1", 2)],
        };
        harness.topic.captured(Uuid::new_v4(), &lines).await;
    }
    harness.decided(60).await;
    first.stop().await;
    second.stop().await;
    assert_eq!(harness.stock("SKU-1").await, (0, 50));
    assert_eq!(harness.stock("SKU-2").await, (1_000 - 25, 25));
    assert_eq!(harness.shipments("shipped").await, 25);
    assert_eq!(harness.shipments("rejected").await, 35);
    assert_eq!(harness.events("fulfilment.shipped").await, 25);
    assert_eq!(harness.events("fulfilment.rejected").await, 35);
    let twice = "select count(*) from (select subject from outbox group by subject
                                      having count(*) > 1) as announced_twice";
    assert_eq!(harness.count(twice).await, 0);
}

#[tokio::test]
async fn order_with_a_missing_sku_is_rejected_and_reserves_nothing() {
    let harness = Harness::create(&[("SKU-1", 10), ("SKU-2", 1)]).await;
    let lines = [("SKU-1", 1), ("SKU-2", 2)];
    harness.topic.captured(Uuid::new_v4(), &lines).await;
    let unknown_sku = [("SKU-1", 1), ("SKU-99", 1)];
    harness.topic.captured(Uuid::new_v4(), &unknown_sku).await;
    let running = harness.start(&harness.group).await;
    harness.decided(2).await;
    running.stop().await;
    assert_eq!(harness.stock("SKU-1").await, (10, 0));
    assert_eq!(harness.stock("SKU-2").await, (1, 0));
    let reasons = "select count(*) from shipments
                   where status = 'rejected' and reason = 'out_of_stock'";
    assert_eq!(harness.count(reasons).await, 2);
    let announced = "select count(*) from outbox where event_type = 'fulfilment.rejected'
                     and payload::jsonb ->> 'reason' = 'out_of_stock'";
    assert_eq!(harness.count(announced).await, 2);
}

#[tokio::test]
async fn stock_lock_makes_the_next_batch_wait() {
    let harness = Harness::create(&[("SKU-1", 10)]).await;
    let skus = ["SKU-1".to_owned()];
    let mut first = harness.pool.begin().await.unwrap();
    stock::lock(&mut first, &skus).await.unwrap();
    let mut second = harness.pool.begin().await.unwrap();
    {
        let locking = stock::lock(&mut second, &skus);
        tokio::pin!(locking);
        let waiting = "select count(*) from pg_stat_activity
                       where datname = current_database() and wait_event_type = 'Lock'";
        let waits = testkit::eventually("the second lock waits", async || {
            harness.count(waiting).await == 1
        });
        tokio::select! {
            early = &mut locking => panic!("the second lock did not wait: {early:?}"),
            () = waits => {}
        }
        let quantities = BTreeMap::from([("SKU-1".to_owned(), 7)]);
        stock::reserve(&mut first, &quantities).await.unwrap();
        first.commit().await.unwrap();
        assert_eq!(locking.await.unwrap()["SKU-1"], 3);
    }
    second.rollback().await.unwrap();
    assert_eq!(harness.stock("SKU-1").await, (3, 7));
}
