//! A relay dies or stops between two steps: events may be sent twice, with the same ids, and none
//! is lost.

use std::sync::OnceLock;

use events::Envelope;
use outbox::{Settings, StepOutcome};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::harness::{Harness, event};

fn events() -> Vec<Envelope> {
    (0..5).map(|_| event(Uuid::new_v4(), 1)).collect()
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}

/// Writes events and runs a relay whose `reached` panics at a crash point.
async fn crash(harness: &Harness, settings: Settings) -> Vec<String> {
    let events = events();
    harness.write(&events).await;
    let mut relay = harness.relay(settings);
    let step = tokio::spawn(async move { relay.step().await });
    assert!(step.await.unwrap_err().is_panic());
    sorted(events.iter().map(|event| event.id.to_string()).collect())
}

#[tokio::test]
async fn acknowledged_unmarked_events_are_sent_again_with_same_ids() {
    let harness = Harness::create().await;
    let mut settings = harness.settings();
    settings.reached = |point| assert_ne!(point, "relay.acknowledged");
    let written = crash(&harness, settings).await;
    assert_eq!(
        sorted(harness.ids().await),
        written,
        "the broker has the events"
    );
    assert_eq!(harness.unpublished().await, 5, "no row is marked");

    let step = harness.relay(harness.settings()).step().await;
    assert_eq!(step.unwrap(), StepOutcome::Published(5));
    let twice = sorted([written.clone(), written].concat());
    assert_eq!(sorted(harness.ids().await), twice);
}

#[tokio::test]
async fn produced_unreported_events_are_sent_again_with_same_ids() {
    let harness = Harness::create().await;
    let mut settings = harness.settings();
    settings.reached = |point| assert_ne!(point, "relay.produced");
    let written = crash(&harness, settings).await;
    assert_eq!(harness.unpublished().await, 5);

    let step = harness.relay(harness.settings()).step().await;
    assert_eq!(step.unwrap(), StepOutcome::Published(5));
    let mut received = sorted(harness.ids().await);
    received.dedup();
    assert_eq!(received, written, "perhaps twice, but no other events");
}

#[tokio::test]
async fn relay_marks_sent_events_before_it_stops() {
    static SHUTDOWN: OnceLock<CancellationToken> = OnceLock::new();
    let harness = Harness::create().await;
    let written = events();
    harness.write(&written).await;
    let mut settings = harness.settings();
    settings.reached = |point| {
        if point == "relay.produced" {
            SHUTDOWN.get().unwrap().cancel();
        }
    };
    let shutdown = SHUTDOWN.get_or_init(CancellationToken::new).clone();
    harness.relay(settings).run(shutdown).await.unwrap();
    assert_eq!(harness.unpublished().await, 0);
    assert_eq!(harness.ids().await.len(), written.len());
}
