//! Fulfilment rejects an order: in every state, its attempt is voided or its charge is refunded.

use chrono::Utc;
use payment::consumer::rejections::{self, Rejection};
use payment::domain::ProviderLimits;
use serde_json::json;
use uuid::Uuid;
use wiremock::ResponseTemplate;

use crate::harness::{Harness, LONG};
use crate::provider::{
    declined, key_cancelled, key_was_charged, mount_cancellation, mount_captures,
    mount_charge_response, mount_refunds, request_bodies,
};
use crate::stepper::LIMITS;

pub(crate) async fn reject(harness: &Harness, order_id: Uuid, attempt: i32) {
    reject_within(harness, order_id, attempt, &LIMITS).await;
}

pub(crate) async fn reject_within(
    harness: &Harness,
    order_id: Uuid,
    attempt: i32,
    limits: &ProviderLimits,
) {
    let rejection = Rejection {
        order_id,
        attempt,
        reason: "cancelled".to_owned(),
        correlation_id: format!("corr-{order_id}"),
        traceparent: None,
        requested_at: Utc::now(),
    };
    let mut tx = harness.pool.begin().await.unwrap();
    rejections::apply(&mut tx, &[rejection], limits)
        .await
        .unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn attempt_that_was_never_leased_is_voided_permanently() {
    let harness = Harness::create().await;
    let order = harness.open_new().await;
    reject(&harness, order, 1).await;
    assert_eq!(harness.payment(order, 1).await.status, "voided");
    assert_eq!(harness.event_types(order).await, ["payment.voided"]);
    assert_eq!(harness.step().await, 0);
    reject(&harness, order, 1).await;
    assert_eq!(harness.event_types(order).await, ["payment.voided"]);
    assert!(harness.psp.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn rejection_before_its_attempt_prevents_the_charge() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    reject(&harness, order, 1).await;
    harness.open(order, 1).await;
    reject(&harness, order, 1).await;
    assert_eq!(harness.step().await, 0);
    assert_eq!(harness.payment(order, 1).await.status, "voided");
    assert_eq!(harness.event_types(order).await, ["payment.voided"]);
}

#[tokio::test]
async fn captured_attempt_is_refunded_once() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    mount_refunds(&harness.psp).await;
    let order = harness.open_new().await;
    assert_eq!(harness.step().await, 1);
    reject(&harness, order, 1).await;
    reject(&harness, order, 1).await;
    assert_eq!(harness.step().await, 1);
    assert_eq!(harness.step().await, 0);
    assert_eq!(harness.payment(order, 1).await.status, "captured");
    let expected = ["payment.captured", "payment.refunded"];
    assert_eq!(harness.event_types(order).await, expected);
    let sent = request_bodies(&harness.psp, "POST", "/v1/refunds").await;
    let charge = format!("ch_{order}");
    let body = json!({ "charge_id": charge, "amount": 5_000, "reference": order });
    assert_eq!(sent, [body]);
}

#[tokio::test]
async fn declined_attempt_is_announced_as_voided() {
    let harness = Harness::create().await;
    mount_charge_response(&harness.psp, declined("card_declined")).await;
    let order = harness.open_new().await;
    assert_eq!(harness.step().await, 1);
    reject(&harness, order, 1).await;
    reject(&harness, order, 1).await;
    assert_eq!(harness.payment(order, 1).await.status, "declined");
    let expected = ["payment.declined", "payment.voided"];
    assert_eq!(harness.event_types(order).await, expected);
}

#[tokio::test]
async fn unknown_outcome_is_voided_after_its_key_is_cancelled() {
    let harness = Harness::create().await;
    mount_charge_response(&harness.psp, ResponseTemplate::new(503)).await;
    mount_cancellation(&harness.psp, key_cancelled()).await;
    let order = harness.open_new().await;
    assert_eq!(harness.step().await, 0);
    reject(&harness, order, 1).await;
    assert_eq!(harness.payment(order, 1).await.status, "unknown", "not yet");
    assert!(harness.event_types(order).await.is_empty());
    assert_eq!(harness.step().await, 1);
    assert_eq!(harness.payment(order, 1).await.status, "voided");
    assert_eq!(harness.event_types(order).await, ["payment.voided"]);
    let cancelled = request_bodies(&harness.psp, "POST", "/v1/cancellations").await;
    let body = json!({ "key": format!("pay:{order}:1"), "reference": order });
    assert_eq!(cancelled, [body]);
    assert_eq!(
        request_bodies(&harness.psp, "POST", "/v1/charges")
            .await
            .len(),
        1
    );
}

#[tokio::test]
async fn unknown_outcome_that_was_a_charge_is_refunded() {
    let harness = Harness::create().await;
    mount_charge_response(&harness.psp, ResponseTemplate::new(503)).await;
    mount_refunds(&harness.psp).await;
    let order = harness.open_new().await;
    mount_cancellation(&harness.psp, key_was_charged(order, "ch_1")).await;
    assert_eq!(harness.step().await, 0);
    reject(&harness, order, 1).await;
    assert_eq!(harness.step().await, 1, "captured");
    assert_eq!(harness.step().await, 1, "refunded");
    let expected = ["payment.captured", "payment.refunded"];
    assert_eq!(harness.event_types(order).await, expected);
}

#[tokio::test]
async fn charge_in_flight_during_its_rejection_is_refunded() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    mount_refunds(&harness.psp).await;
    let order = harness.open_new().await;
    let in_flight = harness.stepper(LONG).call().await;
    reject(&harness, order, 1).await;
    assert_eq!(harness.stepper(LONG).lease().await, 0, "the lease is valid");
    assert_eq!(harness.record(&in_flight).await.unwrap(), 1);
    assert_eq!(harness.step().await, 1);
    let expected = ["payment.captured", "payment.refunded"];
    assert_eq!(harness.event_types(order).await, expected);
}

#[tokio::test]
async fn stale_answer_after_the_cancellation_changes_nothing() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    mount_cancellation(&harness.psp, key_cancelled()).await;
    let order = harness.open_new().await;
    let zombie = harness.stepper(LONG).call().await;
    reject(&harness, order, 1).await;
    assert_eq!(
        harness.step().await,
        1,
        "its lease expired, its key is cancelled"
    );
    assert_eq!(harness.record(&zombie).await.unwrap(), 0);
    assert_eq!(harness.payment(order, 1).await.status, "voided");
    assert_eq!(harness.event_types(order).await, ["payment.voided"]);
}

#[tokio::test]
async fn tried_attempt_with_an_absent_charge_counts_as_leased() {
    let harness = Harness::create().await;
    mount_charge_response(&harness.psp, ResponseTemplate::new(503)).await;
    mount_cancellation(&harness.psp, key_cancelled()).await;
    let order = harness.open_new().await;
    assert_eq!(harness.step().await, 0);
    // As after a lookup that found nothing.
    harness
        .execute("update payments set first_called_at = null")
        .await;
    reject(&harness, order, 1).await;
    assert_eq!(harness.payment(order, 1).await.status, "unknown");
}
