//! Calls without a definite answer: the outcome is unknown, and the same call is tried again.

use std::time::Duration;

use serde_json::json;
use uuid::Uuid;
use wiremock::ResponseTemplate;

use crate::harness::{Harness, LONG, Payment};
use crate::provider::{
    calls, expected_call, mount_captures, mount_first_charge_responses, mount_first_reset,
};
use crate::stepper::Stepper;

/// Longest backoff of the recorder in these tests.
const BACKOFF_MAX_S: f64 = 20.0;

/// The first try hits the mounted fault and leaves the outcome unknown. The second try makes the same
/// call and settles the payment. Returns the order, and its payment between the two tries.
async fn try_twice(harness: &Harness) -> (Uuid, Payment) {
    try_twice_with(harness, harness.stepper(LONG)).await
}

/// The same; the first try is made by this stepper.
async fn try_twice_with(harness: &Harness, mut first: Stepper) -> (Uuid, Payment) {
    mount_captures(&harness.psp).await;
    let order = harness.open_new().await;
    let answers = first.call().await;
    assert_eq!(harness.record(&answers).await.unwrap(), 0);
    let between = harness.payment(order, 1).await;
    assert_eq!((&*between.status, between.tries), ("unknown", 1));
    assert_eq!(between.lease_token, None);
    assert!(between.due_in_s > 0.5, "no backoff: {between:?}");
    assert!(harness.events(order).await.is_empty());

    harness.pass_time().await;
    let answers = harness.stepper(LONG).call().await;
    assert_eq!(harness.record(&answers).await.unwrap(), 1);
    let settled = harness.payment(order, 1).await;
    assert_eq!((&*settled.status, settled.tries), ("captured", 2));
    assert_eq!(settled.last_error, None);
    assert_eq!(harness.events(order).await.len(), 1);
    let call = expected_call(order, 1);
    assert_eq!(calls(&harness.psp).await, [call.clone(), call]);
    (order, between)
}

/// The payment after a first try with this response.
async fn after(response: ResponseTemplate) -> Payment {
    let harness = Harness::create().await;
    mount_first_charge_responses(&harness.psp, 1, response).await;
    try_twice(&harness).await.1
}

#[tokio::test]
async fn indefinite_status_is_retried_with_the_same_key_and_body() {
    for status in [500, 503, 409, 429, 404, 302] {
        let between = after(ResponseTemplate::new(status)).await;
        assert_eq!(between.last_error, Some(format!("status {status}")));
        assert!(between.due_in_s <= BACKOFF_MAX_S, "{between:?}");
    }
}

#[tokio::test]
async fn unreadable_response_leaves_the_outcome_unknown() {
    let no_code = json!({ "error": "no" });
    for (status, body, error) in [
        (201, json!("captured"), "201 with an unreadable body"),
        (402, no_code, "402 with an unreadable body"),
    ] {
        let response = ResponseTemplate::new(status).set_body_json(body);
        assert_eq!(after(response).await.last_error.as_deref(), Some(error));
    }
}

#[tokio::test]
async fn timed_out_call_is_retried_with_the_same_key_and_body() {
    let too_late = ResponseTemplate::new(201).set_delay(Duration::from_secs(600));
    let harness = Harness::create().await;
    mount_first_charge_responses(&harness.psp, 1, too_late).await;
    let timeout = Duration::from_millis(500);
    let url = harness.psp.uri();
    let impatient = Stepper::with_timeout(harness.pool.clone(), &url, LONG, timeout);
    let (_, between) = try_twice_with(&harness, impatient).await;
    assert_eq!(between.last_error.as_deref(), Some("timed out"));
}

#[tokio::test]
async fn lost_connection_is_retried_with_the_same_key_and_body() {
    let harness = Harness::create().await;
    mount_first_reset(&harness.psp).await;
    let (_, between) = try_twice(&harness).await;
    assert_eq!(between.last_error.as_deref(), Some("connection lost"));
}

#[tokio::test]
async fn retry_after_of_the_provider_is_respected() {
    let later = ResponseTemplate::new(429).insert_header("retry-after", "120");
    let between = after(later).await;
    // Some of the time may have passed.
    let expected = 60.0..120.0 + BACKOFF_MAX_S;
    assert!(expected.contains(&between.due_in_s), "{between:?}");
}

#[tokio::test]
async fn unreachable_provider_leaves_the_outcome_unknown() {
    let harness = Harness::create().await;
    let order = harness.open_new().await;
    let mut stepper = harness.stepper_at("http://127.0.0.1:1", LONG);
    let answers = stepper.call().await;
    assert_eq!(harness.record(&answers).await.unwrap(), 0);
    let payment = harness.payment(order, 1).await;
    assert_eq!((&*payment.status, payment.tries), ("unknown", 1));
    assert_eq!(payment.last_error.as_deref(), Some("no connection"));
}
