use serde_json::json;
use uuid::Uuid;

use crate::harness::{Harness, LONG};
use crate::provider::{answers, calls, captures, declined, expected_call};

#[tokio::test]
async fn a_capture_is_recorded_with_its_event_in_one_commit() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let order = harness.open_new().await;
    let answers = harness.stepper(LONG).call().await;
    assert_eq!(harness.record(&answers).await.unwrap(), 1);
    let payment = harness.payment(order, 1).await;
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
    assert_eq!(harness.events(order).await, [expected]);
    assert_eq!(calls(&harness.psp).await, [expected_call(order, 1)]);
}

#[tokio::test]
async fn a_decline_is_recorded_with_its_event_and_never_tried_again() {
    let harness = Harness::create().await;
    answers(&harness.psp, declined("insufficient_funds")).await;
    let order = harness.open_new().await;
    let mut stepper = harness.stepper(LONG);
    let answers = stepper.call().await;
    assert_eq!(harness.record(&answers).await.unwrap(), 1);
    let payment = harness.payment(order, 1).await;
    assert_eq!(payment.status, "declined");
    assert_eq!(payment.decline_code.as_deref(), Some("insufficient_funds"));
    let event = json!({
        "v": 1, "order_id": order, "attempt": 1, "decline_code": "insufficient_funds",
    });
    let expected = ("payment.declined".to_owned(), event);
    assert_eq!(harness.events(order).await, [expected]);
    harness.execute("update payments set due_at = now()").await;
    assert_eq!(stepper.lease().await, 0);
}

#[tokio::test]
async fn another_attempt_has_a_key_of_its_own() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    captures(&harness.psp).await;
    harness.open(order, 2).await;
    harness.stepper(LONG).call().await;
    assert_eq!(calls(&harness.psp).await, [expected_call(order, 2)]);
}

#[tokio::test]
async fn an_attempt_that_is_opened_again_stays_as_it_is() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let order = harness.open_new().await;
    let answers = harness.stepper(LONG).call().await;
    harness.record(&answers).await.unwrap();
    harness.open(order, 1).await;
    assert_eq!(harness.payment(order, 1).await.status, "captured");
    assert_eq!(harness.stepper(LONG).lease().await, 0);
}

#[tokio::test]
async fn a_result_whose_event_cannot_be_written_is_not_recorded_either_and_settles_later() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let order = harness.open_new().await;
    let mut stepper = harness.stepper(LONG);
    harness.execute("alter table outbox rename to broken").await;
    let answers = stepper.call().await;
    assert!(harness.record(&answers).await.is_err());
    let payment = harness.payment(order, 1).await;
    assert_eq!((&*payment.status, payment.tries), ("pending", 1));

    harness.execute("alter table broken rename to outbox").await;
    assert_eq!(stepper.lease().await, 0, "the lease is still in force");
    harness.pass_time().await;
    let answers = stepper.call().await;
    assert_eq!(harness.record(&answers).await.unwrap(), 1);
    assert_eq!(harness.payment(order, 1).await.status, "captured");
    assert_eq!(harness.events(order).await.len(), 1);
    let call = expected_call(order, 1);
    assert_eq!(calls(&harness.psp).await, [call.clone(), call]);
}
