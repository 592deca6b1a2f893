//! A wake during a step leads to another step.

use std::time::Duration;

use uuid::Uuid;

use crate::harness::{Harness, event};

/// Longer than the test waits, so that an event whose wake is lost is not published in time.
const NO_POLL: Duration = Duration::from_secs(600);

#[tokio::test]
async fn no_wake_is_lost_during_a_step() {
    let harness = Harness::create().await;
    let mut settings = harness.settings();
    settings.poll_interval = NO_POLL;
    settings.session_idle_max = 3 * NO_POLL;
    let (_shutdown, _task) = harness.run(settings);
    for round in 0..40_u64 {
        harness.write(&[event(Uuid::new_v4(), 1)]).await;
        harness.wake.wake();
        // A second wake follows, at a different moment of the step in each round.
        tokio::time::sleep(Duration::from_micros(150 * round)).await;
        harness.write(&[event(Uuid::new_v4(), 1)]).await;
        harness.wake.wake();
        harness.all_published().await;
    }
    assert_eq!(harness.ids().await.len(), 80);
}
