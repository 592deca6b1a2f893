use std::collections::BTreeSet;
use std::time::Duration;

use uuid::Uuid;

use crate::provider::{answers, calls, captures, declined, expected_call};
use crate::stepper::Stepper;
use crate::world::{LONG, World, eventually};

#[tokio::test]
async fn an_answer_that_comes_after_its_lease_changes_nothing_and_announces_nothing() {
    let world = World::create().await;
    captures(&world.psp).await;
    let order = world.open_new().await;
    let zombie = world.stepper(LONG).call().await;
    world.pass_time().await;
    let successor = world.stepper(LONG).call().await;
    let token = world.payment(order, 1).await.lease_token;
    assert!(token.is_some());

    assert_eq!(world.record(&zombie).await.unwrap(), 0);
    let payment = world.payment(order, 1).await;
    assert_eq!((&*payment.status, payment.tries), ("unknown", 2));
    assert_eq!(payment.lease_token, token, "the successor's lease stands");
    assert!(world.events(order).await.is_empty());

    assert_eq!(world.record(&successor).await.unwrap(), 1);
    assert_eq!(world.record(&zombie).await.unwrap(), 0);
    assert_eq!(world.payment(order, 1).await.status, "captured");
    assert_eq!(world.events(order).await.len(), 1);
}

#[tokio::test]
async fn of_two_answers_in_one_batch_the_event_tells_the_one_that_counted() {
    let world = World::create().await;
    answers(&world.psp, declined("overdue")).await;
    let order = world.open_new().await;
    let mut batch = world.stepper(LONG).call().await;
    world.psp.reset().await;
    captures(&world.psp).await;
    world.pass_time().await;
    batch.extend(world.stepper(LONG).call().await);
    // Whichever of them stands first.
    batch.rotate_left(1);
    assert_eq!(world.record(&batch).await.unwrap(), 1);
    let events = world.events(order).await;
    assert_eq!(events[0].0, "payment.captured");
    assert_eq!(events.len(), 1);
}

#[tokio::test]
async fn a_late_word_that_the_outcome_is_unknown_does_not_end_the_successor_s_lease() {
    let world = World::create().await;
    let order = world.open_new().await;
    // Nothing is mounted: every call is answered 404.
    let zombie = world.stepper(LONG).call().await;
    world.pass_time().await;
    let _successor = world.stepper(LONG).call().await;
    let before = world.payment(order, 1).await;
    world.record(&zombie).await.unwrap();
    let after = world.payment(order, 1).await;
    assert_eq!(after.lease_token, before.lease_token);
    assert_eq!(after.last_error, None);
}

#[tokio::test]
async fn a_lease_that_runs_out_is_taken_over_with_the_same_key() {
    let world = World::create().await;
    captures(&world.psp).await;
    let order = world.open_new().await;
    // It dies with its lease: nobody will ever hear its answer.
    let mut dying = world.stepper(Duration::from_millis(300));
    dying.call().await;
    let mut successor = world.stepper(LONG);
    assert_eq!(successor.lease().await, 0, "not before the lease ran out");
    eventually("the lease runs out", async || successor.lease().await == 1).await;
    let answers = successor.answers(1).await;
    assert_eq!(world.record(&answers).await.unwrap(), 1);
    let call = expected_call(order, 1);
    assert_eq!(calls(&world.psp).await, [call.clone(), call]);
}

#[tokio::test]
async fn chargers_side_by_side_never_lease_the_same_attempt() {
    let world = World::create().await;
    captures(&world.psp).await;
    let mut orders = BTreeSet::new();
    for _ in 0..120 {
        orders.insert(world.open_new().await);
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
    let steppers = [(); 4].map(|()| world.stepper(LONG));
    let [a, b, c, d] = steppers.map(work);
    let shares = tokio::join!(a, b, c, d);
    let leased = [shares.0, shares.1, shares.2, shares.3].concat();
    assert_eq!(leased.len(), 120, "each of them once");
    assert_eq!(BTreeSet::from_iter(leased), orders);
    assert_eq!(calls(&world.psp).await.len(), 120);
}
