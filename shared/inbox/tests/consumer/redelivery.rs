//! Messages that Kafka delivers again have no second effect.

use events::header;
use inbox::StepOutcome;
use uuid::Uuid;

use crate::effects::Effects;
use crate::harness::PARTITIONS;
use crate::harness::{Harness, WAIT_MAX, drain, event};

#[tokio::test]
async fn group_with_lost_offsets_rereads_without_effect() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    for number in 0..12 {
        let event = event(order, number);
        harness.topic.publish_to(number % PARTITIONS, &event).await;
    }
    let mut consumer = harness.consumer(harness.settings(), Effects::default());
    assert_eq!(drain(&mut consumer, 12).await, [12, 0, 0]);
    drop(consumer);
    harness.topic.forget_group(&harness.group).await;
    let mut consumer = harness.consumer(harness.settings(), Effects::default());
    assert_eq!(drain(&mut consumer, 12).await, [0, 12, 0]);
    assert_eq!(harness.effect_count().await, 12);
    assert_eq!(harness.processed_count().await, 12);
}

#[tokio::test]
async fn groups_process_messages_independently() {
    let harness = Harness::create().await;
    harness.topic.publish_to(0, &event(Uuid::new_v4(), 1)).await;
    for _ in 0..2 {
        let mut settings = harness.settings();
        settings.group = format!("inbox-{}", Uuid::new_v4());
        let mut consumer = harness.consumer(settings, Effects::default());
        assert_eq!(drain(&mut consumer, 1).await, [1, 0, 0]);
    }
    assert_eq!(harness.effect_count().await, 2);
}

#[tokio::test]
async fn message_three_times_in_a_batch_has_its_effect_once() {
    let harness = Harness::create().await;
    let event = event(Uuid::new_v4(), 1);
    for _ in 0..3 {
        harness.topic.publish_to(0, &event).await;
    }
    let mut consumer = harness.consumer(harness.settings(), Effects::default());
    let one_batch = StepOutcome::Processed {
        fresh: 1,
        duplicates: 2,
        parked: 0,
        skipped: 0,
    };
    let step = consumer.step(WAIT_MAX).await.unwrap();
    assert_eq!(step, one_batch);
    assert_eq!(harness.effect_count().await, 1);
}

#[tokio::test]
async fn unwanted_types_are_skipped_by_header() {
    let harness = Harness::create().await;
    let wanted = event(Uuid::new_v4(), 1);
    for unwanted in ["order.placed", "com.example.unknown", "no such type"] {
        let headers = [(header::TYPE, unwanted)];
        harness.topic.publish_raw(0, &headers, "not JSON").await;
    }
    harness.topic.publish_to(0, &wanted).await;
    let mut consumer = harness.consumer(harness.settings(), Effects::default());
    assert_eq!(drain(&mut consumer, 4).await, [1, 0, 3]);
    assert_eq!(harness.processed_count().await, 1);
    // Skipped messages are committed too.
    harness.stop_when_committed(consumer, 4).await;
}
