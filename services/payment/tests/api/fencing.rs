use std::collections::BTreeSet;
use std::time::Duration;

use uuid::Uuid;

use crate::harness::{Harness, LONG, eventually};
use crate::provider::{answers, calls, captures, declined, expected_call};
use crate::stepper::Stepper;

#[tokio::test]
async fn an_answer_that_comes_after_its_lease_changes_nothing_and_announces_nothing() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let order = harness.open_new().await;
    let zombie = harness.stepper(LONG).call().await;
    harness.pass_time().await;
    let successor = harness.stepper(LONG).call().await;
    let token = harness.payment(order, 1).await.lease_token;
    assert!(token.is_some());

    assert_eq!(harness.record(&zombie).await.unwrap(), 0);
    let payment = harness.payment(order, 1).await;
    assert_eq!((&*payment.status, payment.tries), ("unknown", 2));
    assert_eq!(payment.lease_token, token, "the successor's lease stands");
    assert!(harness.events(order).await.is_empty());

    assert_eq!(harness.record(&successor).await.unwrap(), 1);
    assert_eq!(harness.record(&zombie).await.unwrap(), 0);
    assert_eq!(harness.payment(order, 1).await.status, "captured");
    assert_eq!(harness.events(order).await.len(), 1);
}

#[tokio::test]
async fn of_two_answers_in_one_batch_the_event_tells_the_one_that_counted() {
    let harness = Harness::create().await;
    answers(&harness.psp, declined("overdue")).await;
    let order = harness.open_new().await;
    let mut batch = harness.stepper(LONG).call().await;
    harness.psp.reset().await;
    captures(&harness.psp).await;
    harness.pass_time().await;
    batch.extend(harness.stepper(LONG).call().await);
    // Whichever of them stands first.
    batch.rotate_left(1);
    assert_eq!(harness.record(&batch).await.unwrap(), 1);
    let events = harness.events(order).await;
    assert_eq!(events[0].0, "payment.captured");
    assert_eq!(events.len(), 1);
}

#[tokio::test]
async fn a_late_word_that_the_outcome_is_unknown_does_not_end_the_successor_s_lease() {
    let harness = Harness::create().await;
    let order = harness.open_new().await;
    // Nothing is mounted: every call is answered 404.
    let zombie = harness.stepper(LONG).call().await;
    harness.pass_time().await;
    let _successor = harness.stepper(LONG).call().await;
    let before = harness.payment(order, 1).await;
    harness.record(&zombie).await.unwrap();
    let after = harness.payment(order, 1).await;
    assert_eq!(after.lease_token, before.lease_token);
    assert_eq!(after.last_error, None);
}

#[tokio::test]
async fn a_lease_that_runs_out_is_taken_over_with_the_same_key() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let order = harness.open_new().await;
    // It dies with its lease: nobody will ever hear its answer.
    let mut dying = harness.stepper(Duration::from_millis(300));
    dying.call().await;
    let mut successor = harness.stepper(LONG);
    assert_eq!(successor.lease().await, 0, "not before the lease ran out");
    eventually("the lease runs out", async || successor.lease().await == 1).await;
    let answers = successor.answers(1).await;
    assert_eq!(harness.record(&answers).await.unwrap(), 1);
    let call = expected_call(order, 1);
    assert_eq!(calls(&harness.psp).await, [call.clone(), call]);
}

#[tokio::test]
async fn chargers_side_by_side_never_lease_the_same_attempt() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let mut orders = BTreeSet::new();
    for _ in 0..120 {
        orders.insert(harness.open_new().await);
    }
    let work = async |mut stepper: Stepper| {
        let mut leased: Vec<Uuid> = Vec::new();
        loop {
            let answers = stepper.call().await;
            if answers.is_empty() {
                return leased;
            }
            leased.extend(answers.iter().map(|answered| answered.leased.order_id));
        }
    };
    let steppers = [(); 4].map(|()| harness.stepper(LONG));
    let [a, b, c, d] = steppers.map(work);
    let shares = tokio::join!(a, b, c, d);
    let leased = [shares.0, shares.1, shares.2, shares.3].concat();
    assert_eq!(leased.len(), 120, "each of them once");
    assert_eq!(BTreeSet::from_iter(leased), orders);
    assert_eq!(calls(&harness.psp).await.len(), 120);
}
