//! When the provider may have forgotten a key, the charger looks the charge up and sends nothing.

use std::time::Duration;

use serde_json::json;
use uuid::Uuid;
use wiremock::ResponseTemplate;

use crate::harness::{Harness, LONG};
use crate::provider::{
    charge_of, expected_call, mount_captures, mount_first_charge_responses, mount_look_up,
    request_bodies,
};
use crate::stepper::RESEND_MAX;

const UNAVAILABLE: u16 = 503;

/// An attempt that was sent once, without an answer, inside the provider's key window.
async fn sent_without_answer(harness: &Harness) -> Uuid {
    mount_first_charge_responses(&harness.psp, 1, ResponseTemplate::new(UNAVAILABLE)).await;
    mount_captures(&harness.psp).await;
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

async fn charges_sent(harness: &Harness) -> usize {
    request_bodies(&harness.psp, "POST", "/v1/charges")
        .await
        .len()
}

#[tokio::test]
async fn charge_is_looked_up_before_the_key_window_closes() {
    let harness = Harness::create().await;
    let order = sent_without_answer(&harness).await;
    let key = expected_call(order, 1).0;
    let charge = charge_of(order, "ch_found", &key);
    mount_look_up(&harness.psp, json!([charge])).await;
    age_first_call(&harness, RESEND_MAX).await;
    assert_eq!(harness.step().await, 1);
    let payment = harness.payment(order, 1).await;
    assert_eq!(payment.status, "captured");
    assert_eq!(payment.charge_id.as_deref(), Some("ch_found"));
    assert_eq!(harness.events(order).await.len(), 1);
    assert_eq!(charges_sent(&harness).await, 1, "not after the window");
}

#[tokio::test]
async fn same_key_is_sent_again_inside_the_window() {
    let harness = Harness::create().await;
    let order = sent_without_answer(&harness).await;
    age_first_call(&harness, RESEND_MAX - Duration::from_secs(60)).await;
    assert_eq!(harness.step().await, 1);
    assert_eq!(harness.payment(order, 1).await.status, "captured");
    assert_eq!(charges_sent(&harness).await, 2);
}

#[tokio::test]
async fn absent_charge_allows_one_more_send_of_the_attempt() {
    let harness = Harness::create().await;
    let order = sent_without_answer(&harness).await;
    mount_look_up(&harness.psp, json!([])).await;
    age_first_call(&harness, RESEND_MAX).await;
    assert_eq!(harness.step().await, 0);
    let between = harness.payment(order, 1).await;
    assert_eq!(between.status, "unknown");
    let reason = "the provider has no entry under the key";
    assert_eq!(between.last_error.as_deref(), Some(reason));
    assert_eq!(charges_sent(&harness).await, 1);

    assert_eq!(harness.step().await, 1);
    assert_eq!(harness.payment(order, 1).await.status, "captured");
    let sent = request_bodies(&harness.psp, "POST", "/v1/charges").await;
    assert_eq!(sent, vec![expected_call(order, 1).1; 2]);
}

#[tokio::test]
async fn charge_under_another_key_allows_no_second_charge() {
    let harness = Harness::create().await;
    let order = sent_without_answer(&harness).await;
    let other = charge_of(order, "ch_2", "by-hand");
    mount_look_up(&harness.psp, json!([other])).await;
    age_first_call(&harness, RESEND_MAX).await;
    for _ in 0..3 {
        assert_eq!(harness.step().await, 0);
    }
    let payment = harness.payment(order, 1).await;
    assert_eq!(payment.status, "unknown");
    let reason = "the order is charged under another key";
    assert_eq!(payment.last_error.as_deref(), Some(reason));
    assert_eq!(charges_sent(&harness).await, 1);
}

#[tokio::test]
async fn lookup_without_an_answer_is_repeated_and_sends_nothing() {
    let harness = Harness::create().await;
    let order = sent_without_answer(&harness).await;
    age_first_call(&harness, RESEND_MAX).await;
    // Nothing is mounted for lookups, and a 404 is not a definite answer about a charge.
    for _ in 0..3 {
        assert_eq!(harness.step().await, 0);
    }
    let payment = harness.payment(order, 1).await;
    assert_eq!((&*payment.status, payment.tries), ("unknown", 4));
    assert_eq!(payment.last_error.as_deref(), Some("status 404"));
    assert_eq!(charges_sent(&harness).await, 1);
}
