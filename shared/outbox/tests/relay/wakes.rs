use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::harness::{Harness, event};

/// What a lost wake would cost.
const LOST: Duration = Duration::from_secs(9);

#[tokio::test]
async fn no_wake_is_lost_however_it_falls_into_the_relay_s_step() {
    let harness = Harness::create().await;
    let mut settings = harness.settings();
    settings.poll = LOST;
    let (_shutdown, _task) = harness.run(settings);
    let started = Instant::now();
    for round in 0..40_u64 {
        harness.write(&[event(Uuid::new_v4(), 1)]).await;
        harness.wake.wake();
        // Sometimes one right behind it, at another moment of the step each round.
        tokio::time::sleep(Duration::from_micros(150 * round)).await;
        harness.write(&[event(Uuid::new_v4(), 1)]).await;
        harness.wake.wake();
        harness.all_published().await;
    }
    assert!(started.elapsed() < LOST, "a wake was lost");
    assert_eq!(harness.ids().await.len(), 80);
}
