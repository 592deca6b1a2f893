//! The relay's connection stays open and never answers. The relay gives it up, and publishes over another one.

use std::time::Duration;

use outbox::Relay;
use service_kit::Watch;
use sqlx::ConnectOptions as _;
use testkit::fault_proxy::FaultProxy;
use testkit::polling::eventually_within;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::harness::{Harness, event, eventually};

/// Longer than the relay waits for the database and Postgres for a silent session.
const RECOVERED_WITHIN: Duration = Duration::from_secs(100);

#[tokio::test]
async fn relay_recovers_from_a_silent_store_connection() {
    let harness = Harness::create().await;
    let url = harness.pool.connect_options().to_url_lossy();
    let store = FaultProxy::to(url.as_str()).await.unwrap();
    let mut settings = harness.settings();
    // Postgres must end the silent session: it holds the shards.
    settings.session_idle_max = Duration::from_secs(2);
    settings.store_wait_max = Duration::from_secs(2);
    let relay = Relay::new(settings, store.url.parse().unwrap(), harness.wake.clone()).unwrap();
    let (watch, shutdown) = (Watch::default(), CancellationToken::new());
    let running = watch.worker("relay").of(relay.run(shutdown.clone()));
    let running = tokio::spawn(running);
    harness.write(&[event(Uuid::new_v4(), 1)]).await;
    harness.all_published().await;
    store.silence();
    eventually("the relay waits for the store", async || {
        store.unanswered() > 0
    })
    .await;
    harness.write(&[event(Uuid::new_v4(), 1)]).await;
    // New connections work again, the old one stays silent.
    store.open();
    eventually_within(RECOVERED_WITHIN, "everything is published", async || {
        harness.unpublished().await == 0
    })
    .await;
    assert!(watch.stalled().is_empty());
    assert_eq!(harness.ids().await.len(), 2);
    shutdown.cancel();
    running.await.unwrap().unwrap();
}
