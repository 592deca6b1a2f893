//! Fulfilment will not ship: the attempt ends without money, whatever state it is in.

use payment::consumer::rejections::{self, Rejection};
use serde_json::json;
use uuid::Uuid;
use wiremock::ResponseTemplate;

use crate::harness::{Harness, LONG};
use crate::provider::{
    answers, asked, burnt, cancellations_say, captures, declined, refunds, was_charged,
};

pub(crate) async fn reject(harness: &Harness, order_id: Uuid, attempt: i32) {
    let rejection = Rejection {
        order_id,
        attempt,
        reason: "cancelled".to_owned(),
        correlation_id: format!("corr-{order_id}"),
        traceparent: None,
    };
    let mut tx = harness.pool.begin().await.unwrap();
    rejections::apply(&mut tx, &[rejection]).await.unwrap();
    tx.commit().await.unwrap();
}

async fn step(harness: &Harness) -> usize {
    harness.pass_time().await;
    let answers = harness.stepper(LONG).call().await;
    harness.record(&answers).await.unwrap()
}

async fn types(harness: &Harness, order: Uuid) -> Vec<String> {
    let events = harness.events(order).await;
    events.into_iter().map(|(kind, _)| kind).collect()
}

#[tokio::test]
async fn an_attempt_that_nobody_had_in_hand_is_voided_for_good() {
    let harness = Harness::create().await;
    let order = harness.open_new().await;
    reject(&harness, order, 1).await;
    assert_eq!(harness.payment(order, 1).await.status, "voided");
    assert_eq!(types(&harness, order).await, ["payment.voided"]);
    assert_eq!(step(&harness).await, 0);
    reject(&harness, order, 1).await;
    assert_eq!(types(&harness, order).await, ["payment.voided"]);
    assert!(harness.psp.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_refusal_that_comes_before_its_attempt_keeps_the_attempt_from_being_charged() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    reject(&harness, order, 1).await;
    harness.open(order, 1).await;
    reject(&harness, order, 1).await;
    assert_eq!(step(&harness).await, 0);
    assert_eq!(harness.payment(order, 1).await.status, "voided");
    assert_eq!(types(&harness, order).await, ["payment.voided"]);
}

#[tokio::test]
async fn what_was_captured_is_refunded_once() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    refunds(&harness.psp).await;
    let order = harness.open_new().await;
    assert_eq!(step(&harness).await, 1);
    reject(&harness, order, 1).await;
    reject(&harness, order, 1).await;
    assert_eq!(step(&harness).await, 1);
    assert_eq!(step(&harness).await, 0);
    assert_eq!(harness.payment(order, 1).await.status, "captured");
    let expected = ["payment.captured", "payment.refunded"];
    assert_eq!(types(&harness, order).await, expected);
    let sent = asked(&harness.psp, "POST", "/v1/refunds").await;
    let charge = format!("ch_{order}");
    let body = json!({ "charge_id": charge, "amount": 5_000, "reference": order });
    assert_eq!(sent, [body]);
}

#[tokio::test]
async fn a_declined_attempt_took_no_money_and_that_is_said() {
    let harness = Harness::create().await;
    answers(&harness.psp, declined("card_declined")).await;
    let order = harness.open_new().await;
    assert_eq!(step(&harness).await, 1);
    reject(&harness, order, 1).await;
    reject(&harness, order, 1).await;
    assert_eq!(harness.payment(order, 1).await.status, "declined");
    let expected = ["payment.declined", "payment.voided"];
    assert_eq!(types(&harness, order).await, expected);
}

#[tokio::test]
async fn an_unknown_outcome_is_settled_under_its_own_key_before_it_is_closed() {
    let harness = Harness::create().await;
    answers(&harness.psp, ResponseTemplate::new(503)).await;
    cancellations_say(&harness.psp, burnt()).await;
    let order = harness.open_new().await;
    assert_eq!(step(&harness).await, 0);
    reject(&harness, order, 1).await;
    assert_eq!(harness.payment(order, 1).await.status, "unknown", "not yet");
    assert!(types(&harness, order).await.is_empty());
    assert_eq!(step(&harness).await, 1);
    assert_eq!(harness.payment(order, 1).await.status, "voided");
    assert_eq!(types(&harness, order).await, ["payment.voided"]);
    let cancelled = asked(&harness.psp, "POST", "/v1/cancellations").await;
    let body = json!({ "key": format!("pay:{order}:1"), "reference": order });
    assert_eq!(cancelled, [body]);
    assert_eq!(asked(&harness.psp, "POST", "/v1/charges").await.len(), 1);
}

#[tokio::test]
async fn an_unknown_outcome_that_was_a_charge_is_recorded_and_refunded() {
    let harness = Harness::create().await;
    answers(&harness.psp, ResponseTemplate::new(503)).await;
    cancellations_say(&harness.psp, was_charged("ch_1")).await;
    refunds(&harness.psp).await;
    let order = harness.open_new().await;
    assert_eq!(step(&harness).await, 0);
    reject(&harness, order, 1).await;
    assert_eq!(step(&harness).await, 1, "captured");
    assert_eq!(step(&harness).await, 1, "refunded");
    let expected = ["payment.captured", "payment.refunded"];
    assert_eq!(types(&harness, order).await, expected);
}

#[tokio::test]
async fn a_charge_that_is_out_while_it_is_refused_is_refunded_with_its_answer() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    refunds(&harness.psp).await;
    let order = harness.open_new().await;
    let in_hand = harness.stepper(LONG).call().await;
    reject(&harness, order, 1).await;
    assert_eq!(harness.stepper(LONG).lease().await, 0, "the lease stands");
    assert_eq!(harness.record(&in_hand).await.unwrap(), 1);
    assert_eq!(step(&harness).await, 1);
    let expected = ["payment.captured", "payment.refunded"];
    assert_eq!(types(&harness, order).await, expected);
}

#[tokio::test]
async fn a_zombie_that_wakes_up_after_the_cancellation_finds_nothing_left_to_do() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    cancellations_say(&harness.psp, burnt()).await;
    let order = harness.open_new().await;
    let zombie = harness.stepper(LONG).call().await;
    reject(&harness, order, 1).await;
    assert_eq!(
        step(&harness).await,
        1,
        "its lease ran out, its key is burnt"
    );
    assert_eq!(harness.record(&zombie).await.unwrap(), 0);
    assert_eq!(harness.payment(order, 1).await.status, "voided");
    assert_eq!(types(&harness, order).await, ["payment.voided"]);
}

#[tokio::test]
async fn an_attempt_that_was_sent_again_after_an_absence_counts_as_in_hand() {
    let harness = Harness::create().await;
    answers(&harness.psp, ResponseTemplate::new(503)).await;
    cancellations_say(&harness.psp, burnt()).await;
    let order = harness.open_new().await;
    assert_eq!(step(&harness).await, 0);
    // What a look-up that found nothing leaves behind.
    harness
        .execute("update payments set first_called_at = null")
        .await;
    reject(&harness, order, 1).await;
    assert_eq!(harness.payment(order, 1).await.status, "unknown");
}
