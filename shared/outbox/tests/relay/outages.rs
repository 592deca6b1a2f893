use std::time::{Duration, Instant};

use outbox::{Outcome, SHARDS, Settings};
use uuid::Uuid;

use crate::harness::{Harness, event, eventually};

/// Where nobody listens.
const NOWHERE: &str = "127.0.0.1:1";

fn without_broker(harness: &Harness) -> Settings {
    let mut settings = harness.settings();
    settings.brokers = NOWHERE.to_owned();
    settings.delivery_max = Duration::from_millis(1_500);
    settings
}

#[tokio::test]
async fn rows_wait_out_a_broker_that_is_away_and_nothing_is_held_against_them() {
    let harness = Harness::create().await;
    let events = [event(Uuid::new_v4(), 1), event(Uuid::new_v4(), 1)];
    harness.write(&events).await;
    let before: Vec<String> = snapshot(&harness).await;
    let mut cut_off = harness.relay(without_broker(&harness));
    for _ in 0..2 {
        let step = cut_off.try_publish_batch().await.unwrap();
        let (published, refused) = (0, 2);
        assert_eq!(step, Outcome::Refused { published, refused });
    }
    assert_eq!(
        snapshot(&harness).await,
        before,
        "the rows are as they were"
    );

    // The relay that cannot reach the broker lives on, and is not in the way of one that can.
    let mut well_placed = harness.relay(harness.settings());
    let step = well_placed.try_publish_batch().await.unwrap();
    assert_eq!(step, Outcome::Published(2));
    assert_eq!(harness.ids().await.len(), 2);
}

async fn snapshot(harness: &Harness) -> Vec<String> {
    sqlx::query_scalar("select outbox::text from outbox order by id")
        .fetch_all(&harness.pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_relay_that_waits_for_the_broker_is_not_taken_for_dead() {
    let harness = Harness::create().await;
    harness.write(&[event(Uuid::new_v4(), 1)]).await;
    let mut settings = without_broker(&harness);
    settings.delivery_max = Duration::from_secs(300);
    settings.silence_max = Duration::from_millis(600);
    let (_shutdown, task) = harness.run(settings);
    let all = [i64::from(SHARDS)];
    eventually("it owns everything", async || harness.shares().await == all).await;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(2) {
        assert_eq!(harness.shares().await, all);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    task.abort();
}

#[tokio::test]
async fn a_relay_that_waits_for_the_broker_still_stops_when_told_to() {
    let harness = Harness::create().await;
    harness.write(&[event(Uuid::new_v4(), 1)]).await;
    let mut settings = without_broker(&harness);
    settings.delivery_max = Duration::from_secs(300);
    let (shutdown, task) = harness.run(settings);
    eventually("it has claimed", async || {
        !harness.shares().await.is_empty()
    })
    .await;
    shutdown.cancel();
    let stopped = tokio::time::timeout(Duration::from_secs(5), task).await;
    stopped.expect("it does not stop").unwrap().unwrap();
    assert_eq!(harness.unpublished().await, 1);
}
