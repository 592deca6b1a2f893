use uuid::Uuid;

use crate::effects::{Effects, FOR_EVER};
use crate::harness::{Harness, drain, event, eventually};

#[tokio::test]
async fn a_batch_that_fails_is_tried_again_in_order_and_acknowledged_only_then() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    for number in 1..=10 {
        harness.topic.publish_to(0, &event(order, number)).await;
    }
    let failing = Effects::failing(FOR_EVER);
    let mut settings = harness.settings();
    settings.batch_max = 4;
    let (shutdown, task) = harness.run(settings, failing.clone());
    eventually("it has tried some times", async || failing.calls() >= 5).await;
    assert_eq!(harness.effect_count().await, 0, "each try is rolled back");
    assert_eq!(harness.ledger_count().await, 0);
    // Longer than the client takes to commit what is stored.
    let calls = failing.calls();
    eventually("it goes on trying", async || failing.calls() > calls + 25).await;
    assert_eq!(harness.topic.committed(&harness.group), [None; 3]);

    failing.heal();
    eventually("all have their effect", async || {
        harness.effect_count().await == 10
    })
    .await;
    let expected: Vec<i32> = (1..=10).collect();
    assert_eq!(harness.effects(order).await, expected);
    shutdown.cancel();
    task.await.unwrap().unwrap();
    assert_eq!(
        harness.topic.committed(&harness.group),
        [Some(10), None, None]
    );
}

#[tokio::test]
async fn one_step_outlasts_a_few_failures() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    for number in 1..=6 {
        harness
            .topic
            .publish_to(number % 3, &event(order, number))
            .await;
    }
    let failing = Effects::failing(3);
    let mut consumer = harness.consumer(harness.settings(), failing.clone());
    assert_eq!(drain(&mut consumer, 6).await, [6, 0, 0]);
    assert!(failing.calls() >= 4, "{}", failing.calls());
    assert_eq!(harness.effect_count().await, 6);
    // Paused partitions were resumed.
    harness.topic.publish_to(1, &event(order, 7)).await;
    assert_eq!(drain(&mut consumer, 1).await, [1, 0, 0]);
}

#[tokio::test]
async fn the_order_within_a_partition_survives_small_batches_and_failures() {
    let harness = Harness::create().await;
    let orders = [(); 3].map(|()| Uuid::new_v4());
    for number in 1..=30 {
        for (partition, order) in (0..).zip(orders) {
            harness
                .topic
                .publish_to(partition, &event(order, number))
                .await;
        }
    }
    let failing = Effects::failing(5);
    let mut settings = harness.settings();
    settings.batch_max = 7;
    let mut consumer = harness.consumer(settings, failing);
    assert_eq!(drain(&mut consumer, 90).await, [90, 0, 0]);
    let expected: Vec<i32> = (1..=30).collect();
    for order in orders {
        assert_eq!(harness.effects(order).await, expected);
    }
}
