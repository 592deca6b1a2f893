//! A batch that fails is retried, in order, and is acknowledged only after its commit.

use uuid::Uuid;

use crate::effects::{ALWAYS, Effects};
use crate::harness::{Harness, drain, event, eventually};

#[tokio::test]
async fn failed_batch_is_retried_before_it_is_acknowledged() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    for number in 1..=10 {
        harness.topic.publish_to(0, &event(order, number)).await;
    }
    let failing = Effects::failing(ALWAYS);
    let mut settings = harness.settings();
    settings.batch_messages_max = 4;
    let (shutdown, task) = harness.run(settings, failing.clone());
    eventually("several tries have failed", async || failing.calls() >= 5).await;
    assert_eq!(harness.effect_count().await, 0, "each try is rolled back");
    assert_eq!(harness.processed_count().await, 0);
    // Longer than the client takes to commit what is stored.
    let calls = failing.calls();
    eventually("tries continue", async || failing.calls() > calls + 25).await;
    assert_eq!(harness.topic.committed(&harness.group), [None; 3]);

    failing.heal();
    eventually("all messages have their effect", async || {
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
async fn one_step_survives_a_few_failures() {
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
    // Paused partitions are resumed.
    harness.topic.publish_to(1, &event(order, 7)).await;
    assert_eq!(drain(&mut consumer, 1).await, [1, 0, 0]);
}

#[tokio::test]
async fn small_batches_and_failures_keep_partition_order() {
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
    settings.batch_messages_max = 7;
    let mut consumer = harness.consumer(settings, failing);
    assert_eq!(drain(&mut consumer, 90).await, [90, 0, 0]);
    let expected: Vec<i32> = (1..=30).collect();
    for order in orders {
        assert_eq!(harness.effects(order).await, expected);
    }
}
