//! The lag covers exactly the assigned partitions of a consumer.

use std::time::Duration;

use inbox::Lag;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::effects::{ALWAYS, Effects};
use crate::harness::PARTITIONS;
use crate::harness::{Harness, event, eventually};

/// Messages in each partition.
const EACH: i32 = 4;
const ALL: i64 = EACH as i64 * PARTITIONS as i64;

/// Always fails, each time after a delay, like an unreachable database. Between two tries the
/// partitions are paused, and the client learns their length only while it fetches.
fn stuck() -> Effects {
    Effects {
        delay: Duration::from_millis(500),
        ..Effects::failing(ALWAYS)
    }
}

async fn fill(harness: &Harness) {
    for partition in 0..PARTITIONS {
        let order = Uuid::new_v4();
        for number in 1..=EACH {
            harness
                .topic
                .publish_to(partition, &event(order, number))
                .await;
        }
    }
}

/// Runs a consumer, and returns its lag.
fn run(
    harness: &Harness,
    handler: Effects,
) -> (Lag, CancellationToken, JoinHandle<anyhow::Result<()>>) {
    let mut settings = harness.settings();
    settings.statistics_interval = Duration::from_millis(100);
    let consumer = harness.consumer(settings, handler);
    let (lag, shutdown) = (consumer.lag(), CancellationToken::new());
    let task = tokio::spawn(consumer.run(shutdown.clone()));
    (lag, shutdown, task)
}

#[tokio::test]
async fn stuck_consumer_reports_its_lag_until_it_catches_up() {
    let harness = Harness::create().await;
    fill(&harness).await;
    let stuck = stuck();
    let (lag, _shutdown, _task) = run(&harness, stuck.clone());
    eventually("all messages are counted", async || lag.messages() == ALL).await;
    fill(&harness).await;
    eventually("added messages are counted", async || {
        lag.messages() == 2 * ALL
    })
    .await;
    stuck.heal();
    eventually("the consumer caught up", async || lag.messages() == 0).await;
    assert_eq!(harness.effect_count().await, 2 * ALL);
}

#[tokio::test]
async fn revoked_partitions_do_not_count() {
    let harness = Harness::create().await;
    fill(&harness).await;
    let stuck = stuck();
    let (first, _first_shutdown, _first) = run(&harness, stuck.clone());
    eventually("the first has all partitions", async || {
        first.messages() == ALL
    })
    .await;
    let (second, second_shutdown, task) = run(&harness, stuck.clone());
    eventually("each counts its own partitions", async || {
        let (first, second) = (first.messages(), second.messages());
        first > 0 && second > 0 && first + second == ALL
    })
    .await;
    second_shutdown.cancel();
    task.await.unwrap().unwrap();
    assert_eq!(second.messages(), 0, "no partitions are left");
    eventually("the first has all partitions again", async || {
        first.messages() == ALL
    })
    .await;
}
