//! The machine is suspended. Only a clock that counts the suspension notices it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leases::Clock;
use receipt::domain::SendOutcome;

use crate::harness::{Harness, LONG};
use crate::stepper::{Stepper, TIMEOUT_MS};

/// A clock that a test sets.
fn clock() -> (Arc<Mutex<Duration>>, Clock) {
    let now = Arc::new(Mutex::new(Duration::ZERO));
    let clock = Clock::new({
        let now = now.clone();
        move || *now.lock().unwrap()
    });
    (now, clock)
}

#[tokio::test]
async fn dialogue_that_could_outlast_its_lease_does_not_start() {
    let harness = Harness::create().await;
    harness.log_new().await;
    // One dialogue has two parts, each with its own limit.
    let dialogue_max = Duration::from_millis(2 * TIMEOUT_MS);
    let (now, clock) = clock();
    let mut stepper = Stepper::with_clock(&harness, LONG, clock);
    assert_eq!(stepper.lease().await, 1);
    // The test has one thread, so the call starts with the next wait.
    *now.lock().unwrap() = LONG - dialogue_max;
    let tried = stepper.outcomes(1).await;
    assert!(
        matches!(tried[0].outcome, SendOutcome::NotSent { .. }),
        "{:?}",
        tried[0].outcome
    );
    assert!(harness.mails().is_empty());
}

#[tokio::test]
async fn full_scan_is_due_after_a_suspension() {
    let harness = Harness::create().await;
    let (now, clock) = clock();
    let stepper = Stepper::with_clock(&harness, LONG, clock);
    // The first step finds the floor.
    assert_eq!(stepper.lease().await, 0);
    // As after the store's clock was set back.
    harness.log_new().await;
    let back = "update receipts set due_at = now() - interval '1 hour'";
    harness.execute(back).await;
    assert_eq!(stepper.lease().await, 0, "behind the floor");
    *now.lock().unwrap() += Duration::from_secs(60);
    assert_eq!(stepper.lease().await, 1);
}
