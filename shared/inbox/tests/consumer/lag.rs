use std::time::Duration;

use inbox::Lag;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::effects::{Effects, FOR_EVER};
use crate::harness::PARTITIONS;
use crate::harness::{Harness, event, eventually};

/// Messages in each partition.
const EACH: i32 = 4;
const ALL: i64 = EACH as i64 * PARTITIONS as i64;

/// Fails for ever, each time after a while, as with a database that is away. Between two tries the
/// partitions are paused, and the client learns how long they have become only while it fetches.
fn stuck() -> Effects {
    Effects {
        delay: Duration::from_millis(500),
        ..Effects::failing(FOR_EVER)
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

/// A consumer that runs, and how far it is behind.
fn run(
    harness: &Harness,
    handler: Effects,
) -> (Lag, CancellationToken, JoinHandle<anyhow::Result<()>>) {
    let mut settings = harness.settings();
    settings.statistics = Duration::from_millis(100);
    let consumer = harness.consumer(settings, handler);
    let (lag, shutdown) = (consumer.lag(), CancellationToken::new());
    let task = tokio::spawn(consumer.run(shutdown.clone()));
    (lag, shutdown, task)
}

#[tokio::test]
async fn a_consumer_that_cannot_work_says_how_far_it_is_behind_and_then_that_it_is_not() {
    let harness = Harness::create().await;
    fill(&harness).await;
    let stuck = stuck();
    let (lag, _shutdown, _task) = run(&harness, stuck.clone());
    eventually("it counts what waits", async || lag.messages() == ALL).await;
    fill(&harness).await;
    eventually("and what is added", async || lag.messages() == 2 * ALL).await;
    stuck.heal();
    eventually("it has caught up", async || lag.messages() == 0).await;
    assert_eq!(harness.effect_count().await, 2 * ALL);
}

#[tokio::test]
async fn partitions_that_were_taken_away_are_no_longer_counted() {
    let harness = Harness::create().await;
    fill(&harness).await;
    let stuck = stuck();
    let (first, _first_shutdown, _first) = run(&harness, stuck.clone());
    eventually("the first has all", async || first.messages() == ALL).await;
    let (second, second_shutdown, task) = run(&harness, stuck.clone());
    eventually("both count their own, nothing twice", async || {
        let (first, second) = (first.messages(), second.messages());
        first > 0 && second > 0 && first + second == ALL
    })
    .await;
    second_shutdown.cancel();
    task.await.unwrap().unwrap();
    assert_eq!(second.messages(), 0, "it has no partitions left");
    eventually("the first has all again", async || first.messages() == ALL).await;
}
