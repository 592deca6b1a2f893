use std::sync::OnceLock;

use events::Envelope;
use outbox::{Outcome, Settings};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::world::{World, event};

fn events() -> Vec<Envelope> {
    (0..5).map(|_| event(Uuid::new_v4(), 1)).collect()
}

fn sorted(mut ids: Vec<String>) -> Vec<String> {
    ids.sort();
    ids
}

/// Writes events and lets a relay die at the place that `reached` panics at.
async fn die(world: &World, settings: Settings) -> Vec<String> {
    let events = events();
    world.write(&events).await;
    let mut relay = world.relay(settings);
    let step = tokio::spawn(async move { relay.try_publish_batch().await });
    assert!(step.await.unwrap_err().is_panic());
    sorted(events.iter().map(|event| event.id.to_string()).collect())
}

#[tokio::test]
async fn what_was_acknowledged_but_not_marked_is_published_again_under_the_same_ids() {
    let world = World::create().await;
    let mut settings = world.settings();
    settings.reached = |place| assert_ne!(place, "relay.acknowledged");
    let written = die(&world, settings).await;
    assert_eq!(sorted(world.ids().await), written, "the broker has them");
    assert_eq!(world.unpublished().await, 5, "and the table does not know");

    let step = world.relay(world.settings()).try_publish_batch().await;
    assert_eq!(step.unwrap(), Outcome::Published(5));
    let twice = sorted([written.clone(), written].concat());
    assert_eq!(sorted(world.ids().await), twice);
}

#[tokio::test]
async fn what_was_produced_but_not_reported_is_published_again_under_the_same_ids() {
    let world = World::create().await;
    let mut settings = world.settings();
    settings.reached = |place| assert_ne!(place, "relay.produced");
    let written = die(&world, settings).await;
    assert_eq!(world.unpublished().await, 5);

    let step = world.relay(world.settings()).try_publish_batch().await;
    assert_eq!(step.unwrap(), Outcome::Published(5));
    let mut on_the_wire = sorted(world.ids().await);
    on_the_wire.dedup();
    assert_eq!(on_the_wire, written, "perhaps twice, but nothing else");
}

#[tokio::test]
async fn a_relay_that_is_told_to_stop_marks_what_it_has_sent() {
    static SHUTDOWN: OnceLock<CancellationToken> = OnceLock::new();
    let world = World::create().await;
    let written = events();
    world.write(&written).await;
    let mut settings = world.settings();
    settings.reached = |place| {
        if place == "relay.produced" {
            SHUTDOWN.get().unwrap().cancel();
        }
    };
    let shutdown = SHUTDOWN.get_or_init(CancellationToken::new).clone();
    world.relay(settings).run(shutdown).await.unwrap();
    assert_eq!(world.unpublished().await, 0);
    assert_eq!(world.ids().await.len(), written.len());
}
