use events::header;
use inbox::Outcome;
use uuid::Uuid;

use crate::effects::Effects;
use crate::harness::PARTITIONS;
use crate::harness::{Harness, PATIENCE, drain, event};

#[tokio::test]
async fn a_group_whose_offsets_are_lost_reads_everything_again_and_changes_nothing() {
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
    assert_eq!(harness.ledger_count().await, 12);
}

#[tokio::test]
async fn another_group_has_a_ledger_of_its_own() {
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
async fn a_message_that_stands_in_one_batch_three_times_has_its_effect_once() {
    let harness = Harness::create().await;
    let event = event(Uuid::new_v4(), 1);
    for _ in 0..3 {
        harness.topic.publish_to(0, &event).await;
    }
    let mut consumer = harness.consumer(harness.settings(), Effects::default());
    let one_batch = Outcome::Processed {
        fresh: 1,
        duplicates: 2,
        parked: 0,
        skipped: 0,
    };
    let step = consumer.try_process_batch(PATIENCE).await.unwrap();
    assert_eq!(step, one_batch);
    assert_eq!(harness.effect_count().await, 1);
}

#[tokio::test]
async fn messages_for_others_are_passed_over_by_their_header_unopened() {
    let harness = Harness::create().await;
    let wanted = event(Uuid::new_v4(), 1);
    for foreign in ["order.placed", "com.example.unheard.of", "no such thing"] {
        let headers = [(header::TYPE, foreign)];
        harness.topic.publish_raw(0, &headers, "not JSON").await;
    }
    harness.topic.publish_to(0, &wanted).await;
    let mut consumer = harness.consumer(harness.settings(), Effects::default());
    assert_eq!(drain(&mut consumer, 4).await, [1, 0, 3]);
    assert_eq!(harness.ledger_count().await, 1);
    drop(consumer);
    let committed = harness.topic.committed(&harness.group);
    assert_eq!(committed, [Some(4), None, None], "they do not come again");
}
