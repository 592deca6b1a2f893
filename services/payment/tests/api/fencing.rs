//! A result counts only under its lease; a lost charger is replaced.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::harness::{Harness, LONG};
use crate::provider::{calls, declined, expected_call, mount_captures, mount_charge_response};
use crate::stepper::Stepper;

#[tokio::test]
async fn stale_answer_changes_and_announces_nothing() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let order = harness.open_new().await;
    let zombie = harness.stepper(LONG).call().await;
    harness.pass_time().await;
    let successor = harness.stepper(LONG).call().await;
    let token = harness.payment(order, 1).await.lease_token;
    assert!(token.is_some());

    assert_eq!(harness.record(&zombie).await.unwrap(), 0);
    let payment = harness.payment(order, 1).await;
    assert_eq!((&*payment.status, payment.tries), ("unknown", 2));
    assert_eq!(
        payment.lease_token, token,
        "the lease of the successor is valid"
    );
    assert!(harness.events(order).await.is_empty());

    assert_eq!(harness.record(&successor).await.unwrap(), 1);
    assert_eq!(harness.record(&zombie).await.unwrap(), 0);
    assert_eq!(harness.payment(order, 1).await.status, "captured");
    assert_eq!(harness.events(order).await.len(), 1);
}

#[tokio::test]
async fn event_carries_the_valid_answer_of_its_batch() {
    let harness = Harness::create().await;
    mount_charge_response(&harness.psp, declined("overdue")).await;
    let order = harness.open_new().await;
    let mut batch = harness.stepper(LONG).call().await;
    harness.psp.reset().await;
    mount_captures(&harness.psp).await;
    harness.pass_time().await;
    batch.extend(harness.stepper(LONG).call().await);
    // The stale answer comes last.
    batch.rotate_left(1);
    assert_eq!(harness.record(&batch).await.unwrap(), 1);
    let events = harness.events(order).await;
    assert_eq!(events[0].0, "payment.captured");
    assert_eq!(events.len(), 1);
}

#[tokio::test]
async fn stale_unknown_answer_keeps_the_lease_of_the_successor() {
    let harness = Harness::create().await;
    let order = harness.open_new().await;
    // Nothing is mounted: the response to every call is 404.
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
async fn expired_lease_is_taken_over_with_the_same_key() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let order = harness.open_new().await;
    // This charger dies with its lease: its answer is never recorded.
    let mut dying = harness.stepper(LONG);
    dying.call().await;
    let mut successor = harness.stepper(LONG);
    assert_eq!(successor.lease().await, 0, "not before the lease expired");
    harness.pass_time().await;
    assert_eq!(successor.lease().await, 1);
    let answers = successor.answers(1).await;
    assert_eq!(harness.record(&answers).await.unwrap(), 1);
    let call = expected_call(order, 1);
    assert_eq!(calls(&harness.psp).await, [call.clone(), call]);
}

#[tokio::test]
async fn parallel_chargers_never_lease_the_same_attempt() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
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
    assert_eq!(leased.len(), 120, "each attempt once");
    assert_eq!(BTreeSet::from_iter(leased), orders);
    assert_eq!(calls(&harness.psp).await.len(), 120);
}
