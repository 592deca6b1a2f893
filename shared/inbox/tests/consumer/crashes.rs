//! A crash, a shutdown or a dropped step at any point of a batch: no message is lost or applied
//! twice.

use std::time::Duration;

use inbox::Settings;
use uuid::Uuid;

use crate::effects::Effects;
use crate::harness::{Harness, WAIT_MAX, drain, event, eventually};

/// Produces three messages and runs a consumer whose `reached` panics at a crash point.
async fn crash(harness: &Harness, settings: Settings) {
    let order = Uuid::new_v4();
    for number in 1..=3 {
        harness.topic.publish_to(0, &event(order, number)).await;
    }
    let mut consumer = harness.consumer(settings, Effects::default());
    let step = tokio::spawn(async move { consumer.step(WAIT_MAX).await });
    assert!(step.await.unwrap_err().is_panic());
    let committed = harness.topic.committed(&harness.group);
    assert_eq!(committed, [None; 3], "no offset is committed");
}

#[tokio::test]
async fn crash_between_commit_and_offset_redelivers_duplicates() {
    let harness = Harness::create().await;
    let mut settings = harness.settings();
    settings.reached = |point| assert_ne!(point, "inbox.committed");
    crash(&harness, settings).await;
    assert_eq!(harness.effect_count().await, 3);
    let mut consumer = harness.consumer(harness.settings(), Effects::default());
    assert_eq!(drain(&mut consumer, 3).await, [0, 3, 0]);
    assert_eq!(harness.effect_count().await, 3);
}

#[tokio::test]
async fn crash_before_commit_leaves_nothing_behind() {
    let harness = Harness::create().await;
    let mut settings = harness.settings();
    settings.reached = |point| assert_ne!(point, "inbox.handled");
    crash(&harness, settings).await;
    assert_eq!(harness.effect_count().await, 0);
    assert_eq!(harness.processed_count().await, 0);
    let mut consumer = harness.consumer(harness.settings(), Effects::default());
    assert_eq!(drain(&mut consumer, 3).await, [3, 0, 0]);
    assert_eq!(harness.effect_count().await, 3);
}

#[tokio::test]
async fn shutdown_during_a_batch_is_prompt_and_loses_nothing() {
    let harness = Harness::create().await;
    harness.topic.publish_to(0, &event(Uuid::new_v4(), 1)).await;
    let slow = Effects {
        delay: Duration::from_secs(3_600),
        ..Effects::default()
    };
    let (shutdown, task) = harness.run(harness.settings(), slow.clone());
    eventually("the handler runs", async || slow.calls() > 0).await;
    shutdown.cancel();
    let stopped = tokio::time::timeout(WAIT_MAX, task).await;
    stopped
        .expect("the consumer does not stop")
        .unwrap()
        .unwrap();
    assert_eq!(harness.topic.committed(&harness.group), [None; 3]);
    let mut consumer = harness.consumer(harness.settings(), Effects::default());
    assert_eq!(drain(&mut consumer, 1).await, [1, 0, 0]);
    assert_eq!(harness.effect_count().await, 1);
}

#[tokio::test]
async fn dropped_step_keeps_its_messages_for_the_next() {
    let harness = Harness::create().await;
    let failing = Effects::failing(usize::MAX);
    let order = Uuid::new_v4();
    harness.topic.publish_to(0, &event(order, 1)).await;
    let mut consumer = harness.consumer(harness.settings(), failing.clone());
    tokio::select! {
        _ = consumer.step(WAIT_MAX) => panic!("the step must not finish"),
        () = eventually("the handler was called", async || failing.calls() > 0) => {}
    }
    failing.heal();
    harness.topic.publish_to(0, &event(order, 2)).await;
    assert_eq!(drain(&mut consumer, 2).await, [2, 0, 0]);
    assert_eq!(harness.effects(order).await, [1, 2]);
}
