//! The broker loses its data, and every event is published again.

use uuid::Uuid;

use crate::effects::Effects;
use crate::harness::PARTITIONS;
use crate::harness::{Harness, event, eventually};

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
