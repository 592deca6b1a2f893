//! Definite answers settle an attempt, in one commit with its event.

use serde_json::json;
use uuid::Uuid;

use crate::harness::{Harness, LONG};
use crate::provider::{calls, declined, expected_call, mount_captures, mount_charge_response};

#[tokio::test]
async fn capture_and_its_event_are_one_commit() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
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
async fn decline_is_recorded_with_its_event_and_not_retried() {
    let harness = Harness::create().await;
    mount_charge_response(&harness.psp, declined("insufficient_funds")).await;
    let order = harness.open_new().await;
    let mut stepper = harness.stepper(LONG);
    let answers = stepper.call().await;
    assert_eq!(harness.record(&answers).await.unwrap(), 1);
    let payment = harness.payment(order, 1).await;
    assert_eq!(payment.status, "declined");
    assert_eq!(payment.decline_code.as_deref(), Some("insufficient_funds"));
    let event = json!({
        "v": 2, "order_id": order, "attempt": 1, "decline_code": "insufficient_funds",
        "customer_id": "cust-88", "due": { "amount": 5_000, "currency": "USD" },
    });
    let expected = ("payment.declined".to_owned(), event);
    assert_eq!(harness.events(order).await, [expected]);
    harness
        .execute("update payments set due_at = clock_timestamp()")
        .await;
    assert_eq!(stepper.lease().await, 0);
}

#[tokio::test]
async fn each_attempt_has_its_own_key() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    mount_captures(&harness.psp).await;
    harness.open(order, 2).await;
    harness.stepper(LONG).call().await;
    assert_eq!(calls(&harness.psp).await, [expected_call(order, 2)]);
}

#[tokio::test]
async fn attempt_opened_again_stays_unchanged() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let order = harness.open_new().await;
    let answers = harness.stepper(LONG).call().await;
    harness.record(&answers).await.unwrap();
    harness.open(order, 1).await;
    assert_eq!(harness.payment(order, 1).await.status, "captured");
    assert_eq!(harness.stepper(LONG).lease().await, 0);
}

#[tokio::test]
async fn result_is_not_recorded_without_its_event() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let order = harness.open_new().await;
    let mut stepper = harness.stepper(LONG);
    harness.execute("alter table outbox rename to broken").await;
    let answers = stepper.call().await;
    assert!(harness.record(&answers).await.is_err());
    let payment = harness.payment(order, 1).await;
    assert_eq!((&*payment.status, payment.tries), ("pending", 1));

    harness.execute("alter table broken rename to outbox").await;
    assert_eq!(stepper.lease().await, 0, "the lease is still valid");
    harness.pass_time().await;
    let answers = stepper.call().await;
    assert_eq!(harness.record(&answers).await.unwrap(), 1);
    assert_eq!(harness.payment(order, 1).await.status, "captured");
    assert_eq!(harness.events(order).await.len(), 1);
    let call = expected_call(order, 1);
    assert_eq!(calls(&harness.psp).await, [call.clone(), call]);
}
