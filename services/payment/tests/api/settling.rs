use serde_json::json;
use uuid::Uuid;

use crate::provider::{answers, calls, captures, declined, expected_call};
use crate::world::{LONG, World};

#[tokio::test]
async fn a_capture_is_recorded_with_its_event_in_one_commit() {
    let world = World::create().await;
    captures(&world.psp).await;
    let order = world.open_new().await;
    let answers = world.stepper(LONG).call().await;
    assert_eq!(world.record(&answers).await.unwrap(), 1);
    let payment = world.payment(order, 1).await;
    let charge_id = format!("ch_{order}");
    assert_eq!(payment.status, "captured");
    assert_eq!(payment.charge_id, Some(charge_id.clone()));
    assert_eq!(payment.lease_token, None);
    let event = json!({
        "v": 2, "order_id": order, "attempt": 1, "charge_id": charge_id, "amount": 5_000,
        "currency": "USD", "lines": [{ "sku": "SKU-1", "quantity": 2 }],
        "customer_id": "cust-88",
    });
    let expected = ("payment.captured".to_owned(), event);
    assert_eq!(world.events(order).await, [expected]);
    assert_eq!(calls(&world.psp).await, [expected_call(order, 1)]);
}

#[tokio::test]
async fn a_decline_is_recorded_with_its_event_and_never_tried_again() {
    let world = World::create().await;
    answers(&world.psp, declined("insufficient_funds")).await;
    let order = world.open_new().await;
    let mut stepper = world.stepper(LONG);
    let answers = stepper.call().await;
    assert_eq!(world.record(&answers).await.unwrap(), 1);
    let payment = world.payment(order, 1).await;
    assert_eq!(payment.status, "declined");
    assert_eq!(payment.decline_code.as_deref(), Some("insufficient_funds"));
    let event = json!({
        "v": 1, "order_id": order, "attempt": 1, "decline_code": "insufficient_funds",
    });
    let expected = ("payment.declined".to_owned(), event);
    assert_eq!(world.events(order).await, [expected]);
    world.execute("update payments set due_at = now()").await;
    assert_eq!(stepper.lease().await, 0);
}

#[tokio::test]
async fn another_attempt_has_a_key_of_its_own() {
    let world = World::create().await;
    let order = Uuid::new_v4();
    captures(&world.psp).await;
    world.open(order, 2).await;
    world.stepper(LONG).call().await;
    assert_eq!(calls(&world.psp).await, [expected_call(order, 2)]);
}

#[tokio::test]
async fn an_attempt_that_is_opened_again_stays_as_it_is() {
    let world = World::create().await;
    captures(&world.psp).await;
    let order = world.open_new().await;
    let answers = world.stepper(LONG).call().await;
    world.record(&answers).await.unwrap();
    world.open(order, 1).await;
    assert_eq!(world.payment(order, 1).await.status, "captured");
    assert_eq!(world.stepper(LONG).lease().await, 0);
}

#[tokio::test]
async fn a_result_whose_event_cannot_be_written_is_not_recorded_either_and_settles_later() {
    let world = World::create().await;
    captures(&world.psp).await;
    let order = world.open_new().await;
    let mut stepper = world.stepper(LONG);
    world.execute("alter table outbox rename to broken").await;
    let answers = stepper.call().await;
    assert!(world.record(&answers).await.is_err());
    let payment = world.payment(order, 1).await;
    assert_eq!((&*payment.status, payment.tries), ("pending", 1));

    world.execute("alter table broken rename to outbox").await;
    assert_eq!(stepper.lease().await, 0, "the lease is still in force");
    world.pass_time().await;
    let answers = stepper.call().await;
    assert_eq!(world.record(&answers).await.unwrap(), 1);
    assert_eq!(world.payment(order, 1).await.status, "captured");
    assert_eq!(world.events(order).await.len(), 1);
    let call = expected_call(order, 1);
    assert_eq!(calls(&world.psp).await, [call.clone(), call]);
}
