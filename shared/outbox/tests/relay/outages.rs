//! The broker is unreachable or slow: rows wait, and shards move to a relay that can publish.

use std::time::{Duration, Instant};

use outbox::{SHARDS, Settings, StepOutcome};
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::harness::{Harness, event, eventually};

/// How long the session of a relay may be idle. A busy machine may be late with the relay's signs of life.
const IDLE_MAX: Duration = Duration::from_millis(1_500);
/// An address without a listener.
const NO_BROKER: &str = "127.0.0.1:1";

fn without_broker(harness: &Harness) -> Settings {
    let mut settings = harness.settings();
    settings.brokers = NO_BROKER.to_owned();
    settings.delivery_max = Duration::from_millis(1_500);
    settings
}

/// A broker that accepts connections and never responds.
async fn silent_broker(harness: &Harness) -> (TcpListener, Settings) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings = harness.settings();
    settings.brokers = listener.local_addr().unwrap().to_string();
    settings.delivery_max = Duration::from_secs(300);
    (listener, settings)
}

#[tokio::test]
async fn rows_stay_unchanged_while_the_broker_is_unreachable() {
    let harness = Harness::create().await;
    let events = [event(Uuid::new_v4(), 1), event(Uuid::new_v4(), 1)];
    harness.write(&events).await;
    let before: Vec<String> = snapshot(&harness).await;
    let mut cut_off = harness.relay(without_broker(&harness));
    for _ in 0..2 {
        let step = cut_off.step().await.unwrap();
        let (published, undelivered) = (0, 2);
        assert_eq!(
            step,
            StepOutcome::Undelivered {
                published,
                undelivered
            }
        );
    }
    assert_eq!(snapshot(&harness).await, before, "the rows are unchanged");

    // The relay that cannot reach the broker still runs, and does not block one that can.
    let mut connected = harness.relay(harness.settings());
    let mut published = 0;
    eventually("the other relay publishes both rows", async || {
        match connected.step().await.unwrap() {
            StepOutcome::Published(rows) => published += rows,
            // Postgres has not ended the first relay's session yet.
            step => assert_eq!(step, StepOutcome::Idle),
        }
        published == 2
    })
    .await;
    assert_eq!(harness.ids().await.len(), 2);
}

async fn snapshot(harness: &Harness) -> Vec<String> {
    sqlx::query_scalar("select outbox::text from outbox order by id")
        .fetch_all(&harness.pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn relay_waiting_for_the_broker_keeps_its_shards() {
    let harness = Harness::create().await;
    harness.write(&[event(Uuid::new_v4(), 1)]).await;
    let (broker, mut settings) = silent_broker(&harness).await;
    settings.session_idle_max = IDLE_MAX;
    let (_shutdown, task) = harness.run(settings);
    let all = [i64::from(SHARDS)];
    eventually("the relay owns all shards", async || {
        harness.shares().await == all
    })
    .await;
    let started = Instant::now();
    while started.elapsed() < 2 * IDLE_MAX {
        assert_eq!(harness.shares().await, all);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    task.abort();
    drop(broker);
}

#[tokio::test]
async fn relay_waiting_for_the_broker_stops_on_shutdown() {
    let harness = Harness::create().await;
    harness.write(&[event(Uuid::new_v4(), 1)]).await;
    let (_broker, settings) = silent_broker(&harness).await;
    let (shutdown, task) = harness.run(settings);
    eventually("the relay has shards", async || {
        !harness.shares().await.is_empty()
    })
    .await;
    shutdown.cancel();
    let stopped = tokio::time::timeout(testkit::polling::WAIT_MAX, task).await;
    stopped.expect("the relay does not stop").unwrap().unwrap();
    assert_eq!(harness.unpublished().await, 1);
}
