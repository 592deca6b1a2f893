//! Consumers join, leave and fail: each message has its effect once, in the order of its partition.

use std::ops::RangeInclusive;
use std::time::Duration;

use futures_util::future::join_all;
use uuid::Uuid;

use crate::effects::{ALWAYS, Effects};
use crate::harness::{Harness, event, eventually};
use crate::harness::{PARTITIONS, WAIT_MAX};

/// Messages 1 to `count` of one order in each partition.
async fn fill(harness: &Harness, count: i32) -> Vec<Uuid> {
    let orders = one_order_per_partition();
    publish(harness, &orders, 1..=count).await;
    orders
}

fn one_order_per_partition() -> Vec<Uuid> {
    (0..PARTITIONS).map(|_| Uuid::new_v4()).collect()
}

/// Publishes these messages of each order to its partition.
async fn publish(harness: &Harness, orders: &[Uuid], numbers: RangeInclusive<i32>) {
    for number in numbers {
        let publish = (0..).zip(orders).map(async |(partition, order)| {
            let event = event(*order, number);
            harness.topic.publish_to(partition, &event).await;
        });
        join_all(publish).await;
    }
}

async fn all_once_and_in_order(harness: &Harness, orders: &[Uuid], count: i32) {
    let expected: Vec<i32> = (1..=count).collect();
    for order in orders {
        eventually(
            "all messages of a partition have their effect",
            async || harness.effects(*order).await.len() >= expected.len(),
        )
        .await;
        assert_eq!(harness.effects(*order).await, expected);
    }
}

#[tokio::test]
async fn failing_consumer_lets_another_join_and_work() {
    let harness = Harness::create().await;
    fill(&harness, 5).await;
    let stuck = Effects::failing(ALWAYS);
    let mut settings = harness.settings();
    // One message fills the batch; the consumer must still keep polling.
    settings.batch_messages_max = 1;
    let (_first_shutdown, _first) = harness.run(settings, stuck.clone());
    eventually("the first is stuck", async || stuck.calls() > 2).await;
    let (_second_shutdown, _second) = harness.run(harness.settings(), Effects::default());
    eventually("the second works on its partition", async || {
        harness.effect_count().await >= 5
    })
    .await;
}

#[tokio::test]
async fn rebalance_during_a_retry_neither_loses_nor_repeats() {
    let harness = Harness::create().await;
    let orders = fill(&harness, 8).await;
    let failing = Effects::failing(ALWAYS);
    let mut settings = harness.settings();
    // Long enough for partitions to be revoked and assigned again within one pause.
    settings.retry_pause = Duration::from_secs(2);
    let (first_shutdown, first) = harness.run(settings, failing.clone());
    eventually("the first has tried", async || failing.calls() > 0).await;
    let (_second_shutdown, _second) = harness.run(harness.settings(), Effects::default());
    eventually("the second has taken over a partition", async || {
        harness.effect_count().await >= 8
    })
    .await;
    failing.heal();
    all_once_and_in_order(&harness, &orders, 8).await;

    // The other direction: the second takes over the partitions of the first.
    first_shutdown.cancel();
    first.await.unwrap().unwrap();
    for (partition, order) in (0..).zip(&orders) {
        harness.topic.publish_to(partition, &event(*order, 9)).await;
    }
    all_once_and_in_order(&harness, &orders, 9).await;
}

#[tokio::test]
async fn first_message_after_an_idle_rebalance_is_kept() {
    let harness = Harness::create().await;
    let orders = fill(&harness, 1).await;
    let (_first_shutdown, _first) = harness.run(harness.settings(), Effects::default());
    all_once_and_in_order(&harness, &orders, 1).await;
    let guest = Effects::default();
    let (guest_shutdown, task) = harness.run(harness.settings(), guest.clone());
    let mut number = 1;
    // In each round, partitions are revoked and assigned again while the topic has nothing new.
    eventually("the guest has partitions", async || {
        number += 1;
        for (partition, order) in (0..).zip(&orders) {
            harness
                .topic
                .publish_to(partition, &event(*order, number))
                .await;
        }
        all_once_and_in_order(&harness, &orders, number).await;
        guest.calls() > 0
    })
    .await;
    guest_shutdown.cancel();
    task.await.unwrap().unwrap();
    for (partition, order) in (0..).zip(&orders) {
        harness
            .topic
            .publish_to(partition, &event(*order, number + 1))
            .await;
    }
    all_once_and_in_order(&harness, &orders, number + 1).await;
}

#[tokio::test]
async fn joining_and_leaving_consumers_process_once_in_order() {
    let harness = Harness::create().await;
    let slow = Effects {
        delay: Duration::from_millis(20),
        ..Effects::default()
    };
    let mut settings = harness.settings();
    settings.batch_messages_max = 3;
    let (_lasting_shutdown, _lasting) = harness.run(settings.clone(), slow.clone());
    let orders = one_order_per_partition();
    // New messages for each guest: a slow one leaves the group enough time for all earlier ones.
    for numbers in [1..=14, 15..=28, 29..=42] {
        let (shutdown, guest) = harness.run(settings.clone(), slow.clone());
        let before = harness.effect_count().await;
        let progress = eventually("the group makes progress", async || {
            harness.effect_count().await > before + 5
        });
        tokio::join!(publish(&harness, &orders, numbers), progress);
        shutdown.cancel();
        guest.await.unwrap().unwrap();
    }
    all_once_and_in_order(&harness, &orders, 42).await;
}

/// Settings of a process with a name, and with a session that does not end during the test.
fn named(harness: &Harness) -> inbox::Settings {
    let mut settings = harness.settings();
    settings.instance_id = Some("payment-1".to_owned());
    settings.session_timeout_ms = 600_000;
    settings
}

#[tokio::test]
async fn named_consumer_continues_before_its_session_ends() {
    let harness = Harness::create().await;
    let orders = fill(&harness, 1).await;
    let (_, killed) = harness.run(named(&harness), Effects::default());
    all_once_and_in_order(&harness, &orders, 1).await;
    // Like a killed process, a named client does not leave its group.
    killed.abort();
    assert!(killed.await.unwrap_err().is_cancelled());
    publish(&harness, &orders, 2..=2).await;
    let (_shutdown, _restarted) = harness.run(named(&harness), Effects::default());
    all_once_and_in_order(&harness, &orders, 2).await;
}

#[tokio::test]
async fn one_of_two_consumers_with_one_name_ends() {
    let harness = Harness::create().await;
    let orders = fill(&harness, 1).await;
    let settings = inbox::Settings {
        // A client that has lost its place notices it at its next heartbeat.
        session_timeout_ms: harness.settings().session_timeout_ms,
        ..named(&harness)
    };
    let (_first_shutdown, first) = harness.run(settings.clone(), Effects::default());
    all_once_and_in_order(&harness, &orders, 1).await;
    let (_second_shutdown, second) = harness.run(settings, Effects::default());
    let one = async {
        tokio::select! {
            ended = first => ended,
            ended = second => ended,
        }
    };
    let ended = tokio::time::timeout(WAIT_MAX, one).await;
    let ended = ended.expect("one consumer ends").unwrap();
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("as payment-1"), "{error}");
    publish(&harness, &orders, 2..=2).await;
    all_once_and_in_order(&harness, &orders, 2).await;
}
