//! A wake during a step leads to another step.

use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::harness::{Harness, event};

/// The delay that a lost wake would cause.
const LOST: Duration = Duration::from_secs(9);

#[tokio::test]
async fn no_wake_is_lost_during_a_step() {
    let harness = Harness::create().await;
    let mut settings = harness.settings();
    settings.poll_interval = LOST;
    let (_shutdown, _task) = harness.run(settings);
    let started = Instant::now();
    for round in 0..40_u64 {
        harness.write(&[event(Uuid::new_v4(), 1)]).await;
        harness.wake.wake();
        // A second wake follows, at a different moment of the step in each round.
        tokio::time::sleep(Duration::from_micros(150 * round)).await;
        harness.write(&[event(Uuid::new_v4(), 1)]).await;
        harness.wake.wake();
        harness.all_published().await;
    }
    assert!(started.elapsed() < LOST, "a wake was lost");
    assert_eq!(harness.ids().await.len(), 80);
}
