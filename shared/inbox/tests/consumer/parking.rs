//! A message that keeps failing is parked with the later messages of its order. Other orders
//! continue.

use std::time::Duration;

use uuid::Uuid;

use crate::effects::{ALWAYS, Effects};
use crate::harness::{Harness, WAIT_MAX, drain_parking, event, eventually};
use crate::operator::Operator;

#[tokio::test]
async fn failing_message_is_parked_and_other_orders_continue() {
    let harness = Harness::create().await;
    let poisoned = Uuid::new_v4();
    let others: Vec<Uuid> = (0..20).map(|_| Uuid::new_v4()).collect();
    for (index, order) in (0..).zip(&others) {
        harness.topic.publish_to(index % 3, &event(*order, 1)).await;
    }
    harness.topic.publish_to(0, &event(poisoned, 1)).await;
    for (index, order) in (0..).zip(&others) {
        harness.topic.publish_to(index % 3, &event(*order, 2)).await;
    }
    let effects = Effects::poisoned(&[(poisoned, 1)]);
    let mut consumer = harness.consumer(harness.settings(), effects);
    assert_eq!(drain_parking(&mut consumer, 41).await, [40, 0, 1, 0]);
    for order in others {
        assert_eq!(harness.effects(order).await, [1, 2]);
    }
    assert!(harness.effects(poisoned).await.is_empty());
    assert_eq!(harness.queue(poisoned).await, [(1, true)]);
    assert_eq!(
        harness.processed_count().await,
        40,
        "a parked message is not processed"
    );
    harness.stop_when_committed(consumer, 41).await;
}

#[tokio::test]
async fn message_is_parked_after_tries_max_with_its_cause() {
    let harness = Harness::create().await;
    for (number, cause) in [
        (1, "poison\u{fffd} in number 1"),
        (2, "the handler panicked"),
    ] {
        let order = Uuid::new_v4();
        harness.topic.publish_to(0, &event(order, number)).await;
        let effects = Effects::poisoned(&[(order, number)]);
        let mut settings = harness.settings();
        settings.tries_max = 3;
        let mut consumer = harness.consumer(settings, effects.clone());
        assert_eq!(drain_parking(&mut consumer, 1).await, [0, 0, 1, 0]);
        // Once with its batch, then three times alone.
        assert_eq!(effects.calls(), 1 + 3);
        let row = Operator::of(&consumer, &harness.pool)
            .await
            .list()
            .await
            .pop()
            .unwrap();
        assert_eq!((&row["tries"], &row["cause"]), (&3.into(), &cause.into()));
        assert_eq!(row["event_type"], "fulfilment.shipped");
        assert_eq!(row["order_id"], order.to_string());
        assert_eq!(row["consumer_group"], harness.group);
        harness.stop_when_committed(consumer, number.into()).await;
    }
}

#[tokio::test]
async fn later_messages_of_the_order_queue_on_any_consumer() {
    let harness = Harness::create().await;
    let (poisoned, other) = (Uuid::new_v4(), Uuid::new_v4());
    for number in 1..=3 {
        harness.topic.publish_to(0, &event(poisoned, number)).await;
        harness.topic.publish_to(0, &event(other, number)).await;
    }
    let effects = Effects::poisoned(&[(poisoned, 2)]);
    let mut consumer = harness.consumer(harness.settings(), effects);
    assert_eq!(drain_parking(&mut consumer, 6).await, [4, 0, 2, 0]);
    assert_eq!(harness.queue(poisoned).await, [(2, true), (3, false)]);
    harness.stop_when_committed(consumer, 6).await;

    // This consumer shares no memory with the first, and its handler would accept all messages.
    let mut another = harness.consumer(harness.settings(), Effects::default());
    for number in 4..=5 {
        harness.topic.publish_to(0, &event(poisoned, number)).await;
        harness.topic.publish_to(0, &event(other, number)).await;
    }
    assert_eq!(drain_parking(&mut another, 4).await, [2, 0, 2, 0]);
    let queue = [(2, true), (3, false), (4, false), (5, false)];
    assert_eq!(harness.queue(poisoned).await, queue);
    assert_eq!(harness.effects(poisoned).await, [1]);
    assert_eq!(harness.effects(other).await, [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn redelivered_message_is_parked_once() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    for number in 1..=3 {
        harness.topic.publish_to(0, &event(order, number)).await;
    }
    harness.topic.publish_raw(0, &[], "who am I?").await;
    for expected in [[1, 0, 3, 0], [0, 4, 0, 0]] {
        let effects = Effects::poisoned(&[(order, 2)]);
        let mut consumer = harness.consumer(harness.settings(), effects);
        assert_eq!(drain_parking(&mut consumer, 4).await, expected);
        drop(consumer);
        harness.topic.forget_group(&harness.group).await;
    }
    assert_eq!(harness.queue(order).await, [(2, true), (3, false)]);
    assert_eq!(harness.parked_count().await, 3);
}

#[tokio::test]
async fn crash_after_parking_redelivers_a_duplicate() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    harness.topic.publish_to(0, &event(order, 1)).await;
    harness.topic.publish_to(0, &event(order, 2)).await;
    let mut settings = harness.settings();
    settings.reached = |point| assert_ne!(point, "inbox.parked");
    let mut consumer = harness.consumer(settings, Effects::poisoned(&[(order, 1)]));
    let step = tokio::spawn(async move { consumer.step(WAIT_MAX).await });
    assert!(step.await.unwrap_err().is_panic());
    assert_eq!(harness.queue(order).await, [(1, true)]);
    assert_eq!(harness.topic.committed(&harness.group), [None; 3]);

    let mut consumer = harness.consumer(harness.settings(), Effects::default());
    assert_eq!(drain_parking(&mut consumer, 2).await, [0, 1, 1, 0]);
    assert_eq!(harness.queue(order).await, [(1, true), (2, false)]);
}

#[tokio::test]
async fn unreachable_database_parks_nothing() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    harness.topic.publish_to(0, &event(order, 1)).await;
    let unreachable = Effects::failing(ALWAYS);
    let mut settings = harness.settings();
    settings.tries_max = 1;
    let (shutdown, task) = harness.run(settings, unreachable.clone());
    eventually("many tries have failed", async || unreachable.calls() > 10).await;
    assert_eq!(harness.parked_count().await, 0);
    unreachable.heal();
    eventually("the message is handled", async || {
        harness.effect_count().await == 1
    })
    .await;
    shutdown.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn missing_table_parks_nothing() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    let rename = |sql| sqlx::raw_sql(sql).execute(&harness.pool);
    rename("alter table effects rename to not_yet")
        .await
        .unwrap();
    harness.topic.publish_to(0, &event(order, 1)).await;
    let mut settings = harness.settings();
    settings.tries_max = 1;
    settings.retry_pause = Duration::from_millis(10);
    let effects = Effects::default();
    let mut consumer = harness.consumer(settings, effects.clone());
    tokio::select! {
        step = consumer.step(WAIT_MAX) => panic!("the step must not finish: {step:?}"),
        () = eventually("it was tried many times", async || effects.tries() >= 10) => {}
    }
    assert_eq!(harness.parked_count().await, 0);
    rename("alter table not_yet rename to effects")
        .await
        .unwrap();
    assert_eq!(drain_parking(&mut consumer, 1).await, [1, 0, 0, 0]);
}
