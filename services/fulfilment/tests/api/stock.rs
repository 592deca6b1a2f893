use std::collections::BTreeMap;
use std::time::Duration;

use fulfilment::store::stock;
use uuid::Uuid;

use crate::harness::Harness;

#[tokio::test]
async fn replicas_that_share_the_work_give_out_no_more_than_there_is() {
    let harness = Harness::create(&[("SKU-1", 50), ("SKU-2", 1_000)]).await;
    let first = harness.start(&harness.group).await;
    let second = harness.start(&harness.group).await;
    // Locks on two SKUs, named in both orders: batches must not wait crosswise.
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
    let both = "select count(*) from (select subject from outbox group by subject
                                      having count(*) > 1) as announced_twice";
    assert_eq!(harness.count(both).await, 0);
}

#[tokio::test]
async fn an_order_that_cannot_have_everything_is_rejected_and_takes_nothing() {
    let harness = Harness::create(&[("SKU-1", 10), ("SKU-2", 1)]).await;
    let lines = [("SKU-1", 1), ("SKU-2", 2)];
    harness.topic.captured(Uuid::new_v4(), &lines).await;
    let unheard_of = [("SKU-1", 1), ("SKU-99", 1)];
    harness.topic.captured(Uuid::new_v4(), &unheard_of).await;
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
async fn a_shelf_that_one_batch_takes_from_is_not_looked_at_by_another_until_it_is_done() {
    let harness = Harness::create(&[("SKU-1", 10)]).await;
    let skus = ["SKU-1".to_owned()];
    let mut first = harness.pool.begin().await.unwrap();
    stock::lock(&mut first, &skus).await.unwrap();
    let mut second = harness.pool.begin().await.unwrap();
    {
        let look = stock::lock(&mut second, &skus);
        tokio::pin!(look);
        let early = tokio::time::timeout(Duration::from_millis(300), &mut look).await;
        assert!(early.is_err(), "it did not wait: {early:?}");
        let taken = BTreeMap::from([("SKU-1".to_owned(), 7)]);
        stock::reserve(&mut first, &taken).await.unwrap();
        first.commit().await.unwrap();
        assert_eq!(look.await.unwrap()["SKU-1"], 3);
    }
    second.rollback().await.unwrap();
    assert_eq!(harness.stock("SKU-1").await, (3, 7));
}
