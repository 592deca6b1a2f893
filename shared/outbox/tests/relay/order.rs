//! Events of one order arrive in order, even after a failure.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use events::Envelope;
use outbox::StepOutcome;
use uuid::Uuid;

use crate::harness::{Harness, event, numbers};

/// Larger than a producer accepts by default.
const TOO_LARGE: usize = 1_100_000;

fn oversized(order_id: Uuid, number: i32) -> Envelope {
    let mut event = event(order_id, number);
    event.payload = format!("\"{}\"", "x".repeat(TOO_LARGE));
    event
}

#[tokio::test]
async fn events_of_one_order_arrive_in_order_over_many_batches() {
    let harness = Harness::create().await;
    let orders: Vec<Uuid> = (0..7).map(|_| Uuid::new_v4()).collect();
    for number in 1..=20 {
        let events: Vec<Envelope> = orders.iter().map(|id| event(*id, number)).collect();
        harness.write(&events).await;
    }
    let mut settings = harness.settings();
    settings.batch_rows_max = 9;
    let mut relay = harness.relay(settings);
    let mut steps = 0;
    while relay.step().await.unwrap() != StepOutcome::Idle {
        steps += 1;
    }
    assert_eq!(steps, (7 * 20_u32).div_ceil(9));
    let messages = harness.topic.read().await;
    assert_eq!(messages.len(), 7 * 20);
    for order in orders {
        let expected: Vec<i32> = (1..=20).collect();
        assert_eq!(numbers(&messages, order), expected);
    }
}

#[tokio::test]
async fn unsendable_event_is_not_overtaken_by_its_order() {
    let harness = Harness::create().await;
    let (stuck, other) = (Uuid::new_v4(), Uuid::new_v4());
    harness
        .write(&[oversized(stuck, 1), event(stuck, 2), event(other, 1)])
        .await;
    let mut relay = harness.relay(harness.settings());
    let first = relay.step().await.unwrap();
    let (published, undelivered) = (1, 2);
    assert_eq!(
        first,
        StepOutcome::Undelivered {
            published,
            undelivered
        }
    );
    let again = relay.step().await.unwrap();
    let (published, undelivered) = (0, 2);
    assert_eq!(
        again,
        StepOutcome::Undelivered {
            published,
            undelivered
        }
    );
    let messages = harness.topic.read().await;
    assert_eq!(numbers(&messages, other), [1]);
    assert_eq!(messages.len(), 1, "no event of the blocked order");
}

#[tokio::test]
async fn wakes_do_not_turn_a_failure_into_a_busy_loop() {
    static CLAIMS: AtomicUsize = AtomicUsize::new(0);
    let harness = Harness::create().await;
    harness.write(&[oversized(Uuid::new_v4(), 1)]).await;
    let mut settings = harness.settings();
    settings.reached = |point| {
        if point == "relay.claimed" {
            CLAIMS.fetch_add(1, Ordering::Relaxed);
        }
    };
    let (_shutdown, task) = harness.run(settings);
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(1) {
        harness.wake.wake();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    task.abort();
    let claims = CLAIMS.load(Ordering::Relaxed);
    assert!((1..=4).contains(&claims), "{claims} tries in a second");
}
