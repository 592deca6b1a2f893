//! The broker loses its data, and everything is published again.

use uuid::Uuid;

use crate::effects::Effects;
use crate::harness::PARTITIONS;
use crate::harness::{Harness, event, eventually};

#[tokio::test]
async fn a_running_consumer_reads_a_topic_that_was_made_anew_from_its_beginning() {
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
    eventually("all is consumed", async || {
        harness.effect_count().await == 5 * per_order
    })
    .await;
    for round in 1..=3 {
        let newest = 5 + round;
        harness.topic.recreate().await;
        // More than the consumer had read before, so that its old place lies within the new topic.
        publish(1..=newest).await;
        eventually("the newest, too", async || {
            harness.effect_count().await == i64::from(newest) * per_order
        })
        .await;
        for order in &orders {
            let expected: Vec<i32> = (1..=newest).collect();
            assert_eq!(harness.effects(*order).await, expected);
        }
    }
}
