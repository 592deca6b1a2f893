//! When the provider may have forgotten a key, it is asked and not told.

use std::time::Duration;

use serde_json::json;
use uuid::Uuid;
use wiremock::ResponseTemplate;

use crate::harness::{Harness, LONG};
use crate::provider::{asked, captures, expected_call, first_answers, look_ups_find};
use crate::stepper::RESEND_MAX;

const NO_ANSWER: u16 = 503;

/// An attempt that was sent once, in vain, just inside the provider's window.
async fn sent_in_vain(harness: &Harness) -> Uuid {
    first_answers(&harness.psp, 1, ResponseTemplate::new(NO_ANSWER)).await;
    captures(&harness.psp).await;
    let order = harness.open_new().await;
    let unknown = harness.stepper(LONG).call().await;
    harness.record(&unknown).await.unwrap();
    order
}

async fn age_first_call(harness: &Harness, age: Duration) {
    let sql = "update payments set first_called_at = now() - make_interval(secs => $1)";
    let aged = sqlx::query(sql)
        .bind(age.as_secs_f64())
        .execute(&harness.pool)
        .await;
    assert_eq!(aged.unwrap().rows_affected(), 1);
}

async fn step(harness: &Harness) -> usize {
    harness.pass_time().await;
    let answers = harness.stepper(LONG).call().await;
    harness.record(&answers).await.unwrap()
}

async fn charges_sent(harness: &Harness) -> usize {
    asked(&harness.psp, "POST", "/v1/charges").await.len()
}

#[tokio::test]
async fn shortly_before_the_window_closes_resending_stops_and_the_charge_is_found() {
    let harness = Harness::create().await;
    let order = sent_in_vain(&harness).await;
    let key = expected_call(order, 1).0;
    let charge = json!([{ "id": "ch_found", "status": "captured", "idempotency_key": key }]);
    look_ups_find(&harness.psp, charge).await;
    age_first_call(&harness, RESEND_MAX).await;
    assert_eq!(step(&harness).await, 1);
    let payment = harness.payment(order, 1).await;
    assert_eq!(payment.status, "captured");
    assert_eq!(payment.charge_id.as_deref(), Some("ch_found"));
    assert_eq!(harness.events(order).await.len(), 1);
    assert_eq!(charges_sent(&harness).await, 1, "never past the window");
}

#[tokio::test]
async fn inside_the_window_the_same_key_is_sent_again() {
    let harness = Harness::create().await;
    let order = sent_in_vain(&harness).await;
    age_first_call(&harness, RESEND_MAX - Duration::from_secs(60)).await;
    assert_eq!(step(&harness).await, 1);
    assert_eq!(harness.payment(order, 1).await.status, "captured");
    assert_eq!(charges_sent(&harness).await, 2);
}

#[tokio::test]
async fn the_provider_s_word_that_there_is_no_charge_allows_the_same_attempt_once_more() {
    let harness = Harness::create().await;
    let order = sent_in_vain(&harness).await;
    look_ups_find(&harness.psp, json!([])).await;
    age_first_call(&harness, RESEND_MAX).await;
    assert_eq!(step(&harness).await, 0);
    let between = harness.payment(order, 1).await;
    assert_eq!(between.status, "unknown");
    let reason = "the provider has no entry under the key";
    assert_eq!(between.last_error.as_deref(), Some(reason));
    assert_eq!(charges_sent(&harness).await, 1);

    assert_eq!(step(&harness).await, 1);
    assert_eq!(harness.payment(order, 1).await.status, "captured");
    let sent = asked(&harness.psp, "POST", "/v1/charges").await;
    assert_eq!(sent, vec![expected_call(order, 1).1; 2]);
}

#[tokio::test]
async fn a_charge_under_another_key_of_the_order_is_no_permission_to_charge_again() {
    let harness = Harness::create().await;
    let order = sent_in_vain(&harness).await;
    let other = json!([{ "id": "ch_2", "status": "captured", "idempotency_key": "by-hand" }]);
    look_ups_find(&harness.psp, other).await;
    age_first_call(&harness, RESEND_MAX).await;
    for _ in 0..3 {
        assert_eq!(step(&harness).await, 0);
    }
    let payment = harness.payment(order, 1).await;
    assert_eq!(payment.status, "unknown");
    let reason = "the order is charged under another key";
    assert_eq!(payment.last_error.as_deref(), Some(reason));
    assert_eq!(charges_sent(&harness).await, 1);
}

#[tokio::test]
async fn a_look_up_without_an_answer_is_asked_again_and_nothing_is_sent() {
    let harness = Harness::create().await;
    let order = sent_in_vain(&harness).await;
    age_first_call(&harness, RESEND_MAX).await;
    // Nothing is mounted for look-ups: 404 is no word on a charge.
    for _ in 0..3 {
        assert_eq!(step(&harness).await, 0);
    }
    let payment = harness.payment(order, 1).await;
    assert_eq!((&*payment.status, payment.tries), ("unknown", 4));
    assert_eq!(payment.last_error.as_deref(), Some("status 404"));
    assert_eq!(charges_sent(&harness).await, 1);
}
