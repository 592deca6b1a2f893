//! The broker loses its data, and every event is published again.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::effects::Effects;
use crate::harness::{Harness, PARTITIONS, drain, event, eventually};

#[tokio::test]
async fn running_consumer_reads_a_recreated_topic_from_its_start() {
    let harness = Harness::create().await;
    let orders: Vec<Uuid> = (0..PARTITIONS).map(|_| Uuid::new_v4()).collect();
    let publish = async |numbers: std::ops::RangeInclusive<i32>| {
        for number in numbers {
            for (partition, order) in (0..).zip(&orders) {
                harness
                    .topic
                    .publish_to(partition, &event(*order, number))
                    .await;
            }
        }
    };
    let (_shutdown, _task) = harness.run(harness.settings(), Effects::default());
    publish(1..=5).await;
    let per_order = i64::from(PARTITIONS);
    eventually("all messages are consumed", async || {
        harness.effect_count().await == 5 * per_order
    })
    .await;
    for round in 1..=3 {
        let newest = 5 + round;
        harness.topic.recreate().await;
        // More messages than the consumer had read, so that its old offset exists in the new topic.
        publish(1..=newest).await;
        eventually("the newest messages are consumed", async || {
            harness.effect_count().await == i64::from(newest) * per_order
        })
        .await;
        for order in &orders {
            let expected: Vec<i32> = (1..=newest).collect();
            assert_eq!(harness.effects(*order).await, expected);
        }
    }
}

/// Waits until the consumer has committed its position in every partition.
async fn wait_for_offsets(harness: &Harness, offset: i64) {
    eventually("offsets are committed", async || {
        let committed = harness.topic.committed(&harness.group);
        committed.iter().all(|it| *it == Some(offset))
    })
    .await;
}

async fn publish(harness: &Harness, orders: &[Uuid], numbers: std::ops::RangeInclusive<i32>) {
    for number in numbers {
        for (partition, order) in (0..).zip(orders) {
            let event = event(*order, number);
            harness.topic.publish_to(partition, &event).await;
        }
    }
}

fn new_orders() -> Vec<Uuid> {
    (0..PARTITIONS).map(|_| Uuid::new_v4()).collect()
}

/// Settings with which a replaced log is noticed soon.
fn settings(harness: &Harness) -> inbox::Settings {
    let mut settings = harness.settings();
    settings.log_check_interval = Duration::from_millis(100);
    settings.statistics_interval = Duration::from_millis(200);
    settings.session_timeout_ms = 2_000;
    settings.client_stall_max = Duration::from_secs(2);
    settings
}

/// The new log is longer than the old one, so that the group's offset is inside it.
async fn expect_all_of_new_log(harness: &Harness, orders: &[Uuid]) {
    for order in orders {
        eventually("the new log is read from its start", async || {
            harness.effects(*order).await.len() == 8
        })
        .await;
    }
    wait_for_offsets(harness, 8).await;
}

#[tokio::test]
async fn log_replaced_while_consumer_is_down_is_read_from_start() {
    let harness = Harness::create().await;
    let (shutdown, task) = harness.run(settings(&harness), Effects::default());
    publish(&harness, &new_orders(), 1..=5).await;
    wait_for_offsets(&harness, 5).await;
    shutdown.cancel();
    task.await.unwrap().unwrap();
    harness.topic.recreate().await;
    let orders = new_orders();
    publish(&harness, &orders, 1..=8).await;
    let (shutdown, task) = harness.run(settings(&harness), Effects::default());
    expect_all_of_new_log(&harness, &orders).await;
    shutdown.cancel();
    task.await.unwrap().unwrap();
}

/// The client hangs, so that it reads nothing before the new log has grown past its offset.
#[tokio::test]
async fn log_replaced_while_consumer_is_up_is_read_from_start() {
    let harness = Harness::create().await;
    let (shutdown, task) = harness.run(settings(&harness), Effects::default());
    publish(&harness, &new_orders(), 1..=5).await;
    wait_for_offsets(&harness, 5).await;
    shutdown.cancel();
    task.await.unwrap().unwrap();
    let mut consumer = harness.consumer(settings(&harness), Effects::default());
    publish(&harness, &new_orders(), 6..=6).await;
    drain(&mut consumer, PARTITIONS as usize).await;
    consumer.pause_client();
    harness.topic.recreate().await;
    let orders = new_orders();
    publish(&harness, &orders, 1..=8).await;
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(consumer.run(shutdown.clone()));
    expect_all_of_new_log(&harness, &orders).await;
    shutdown.cancel();
    task.await.unwrap().unwrap();
}

/// The consumer stops right after it committed, long before its next check.
#[tokio::test]
async fn log_that_lost_its_end_while_consumer_is_down_is_read_again() {
    let harness = Harness::create().await;
    let mut settings = settings(&harness);
    settings.log_check_interval = Duration::from_secs(3_600);
    let kept: Vec<_> = new_orders().iter().map(|it| event(*it, 1)).collect();
    let publish_kept = async || {
        for (partition, event) in (0..).zip(&kept) {
            harness.topic.publish_to(partition, event).await;
        }
    };
    publish_kept().await;
    publish(&harness, &new_orders(), 2..=5).await;
    let (shutdown, task) = harness.run(settings.clone(), Effects::default());
    wait_for_offsets(&harness, 5).await;
    shutdown.cancel();
    task.await.unwrap().unwrap();
    let offsets = harness.topic.offsets(&harness.group);
    harness.topic.recreate().await;
    publish_kept().await;
    let orders = new_orders();
    publish(&harness, &orders, 1..=8).await;
    // Apache Kafka forgets the offsets of a topic that is deleted, but not those of one that lost messages.
    harness.topic.set_offsets(&harness.group, &offsets);
    let (shutdown, task) = harness.run(settings, Effects::default());
    for order in &orders {
        eventually("messages below the group's offset are read", async || {
            harness.effects(*order).await.len() == 8
        })
        .await;
    }
    shutdown.cancel();
    task.await.unwrap().unwrap();
}
