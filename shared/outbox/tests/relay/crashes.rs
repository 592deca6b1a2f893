use std::sync::OnceLock;

use events::Envelope;
use outbox::{Outcome, Settings};
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

/// Writes events and lets a relay die at the place that `reached` panics at.
async fn die(harness: &Harness, settings: Settings) -> Vec<String> {
    let events = events();
    harness.write(&events).await;
    let mut relay = harness.relay(settings);
    let step = tokio::spawn(async move { relay.try_publish_batch().await });
    assert!(step.await.unwrap_err().is_panic());
    sorted(events.iter().map(|event| event.id.to_string()).collect())
}

#[tokio::test]
async fn what_was_acknowledged_but_not_marked_is_published_again_under_the_same_ids() {
    let harness = Harness::create().await;
    let mut settings = harness.settings();
    settings.reached = |place| assert_ne!(place, "relay.acknowledged");
    let written = die(&harness, settings).await;
    assert_eq!(sorted(harness.ids().await), written, "the broker has them");
    assert_eq!(
        harness.unpublished().await,
        5,
        "and the table does not know"
    );

    let step = harness.relay(harness.settings()).try_publish_batch().await;
    assert_eq!(step.unwrap(), Outcome::Published(5));
    let twice = sorted([written.clone(), written].concat());
    assert_eq!(sorted(harness.ids().await), twice);
}

#[tokio::test]
async fn what_was_produced_but_not_reported_is_published_again_under_the_same_ids() {
    let harness = Harness::create().await;
    let mut settings = harness.settings();
    settings.reached = |place| assert_ne!(place, "relay.produced");
    let written = die(&harness, settings).await;
    assert_eq!(harness.unpublished().await, 5);

    let step = harness.relay(harness.settings()).try_publish_batch().await;
    assert_eq!(step.unwrap(), Outcome::Published(5));
    let mut on_the_wire = sorted(harness.ids().await);
    on_the_wire.dedup();
    assert_eq!(on_the_wire, written, "perhaps twice, but nothing else");
}

#[tokio::test]
async fn a_relay_that_is_told_to_stop_marks_what_it_has_sent() {
    static SHUTDOWN: OnceLock<CancellationToken> = OnceLock::new();
    let harness = Harness::create().await;
    let written = events();
    harness.write(&written).await;
    let mut settings = harness.settings();
    settings.reached = |place| {
        if place == "relay.produced" {
            SHUTDOWN.get().unwrap().cancel();
        }
    };
    let shutdown = SHUTDOWN.get_or_init(CancellationToken::new).clone();
    harness.relay(settings).run(shutdown).await.unwrap();
    assert_eq!(harness.unpublished().await, 0);
    assert_eq!(harness.ids().await.len(), written.len());
}
