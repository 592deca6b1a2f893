use std::time::Duration;

use serde_json::json;
use uuid::Uuid;
use wiremock::ResponseTemplate;

use crate::harness::{Harness, LONG, Payment};
use crate::provider::{calls, captures, expected_call, first_answers, first_resets};

/// Longest backoff of the recorder in these tests.
const BACKOFF_MAX_S: f64 = 20.0;

/// Lets the first call meet what was mounted, sees that nothing is lost by it, and that the second
/// call is the same and settles the payment. Returns the payment as it was in between.
async fn ask_twice(harness: &Harness) -> (Uuid, Payment) {
    captures(&harness.psp).await;
    let order = harness.open_new().await;
    let mut stepper = harness.stepper(LONG);
    let answers = stepper.call().await;
    assert_eq!(harness.record(&answers).await.unwrap(), 0);
    let between = harness.payment(order, 1).await;
    assert_eq!((&*between.status, between.tries), ("unknown", 1));
    assert_eq!(between.lease_token, None);
    assert!(between.due_in_s > 0.5, "it backs off: {between:?}");
    assert!(harness.events(order).await.is_empty());

    harness.pass_time().await;
    let answers = stepper.call().await;
    assert_eq!(harness.record(&answers).await.unwrap(), 1);
    let settled = harness.payment(order, 1).await;
    assert_eq!((&*settled.status, settled.tries), ("captured", 2));
    assert_eq!(settled.last_error, None);
    assert_eq!(harness.events(order).await.len(), 1);
    let call = expected_call(order, 1);
    assert_eq!(calls(&harness.psp).await, [call.clone(), call]);
    (order, between)
}

async fn after(answer: ResponseTemplate) -> Payment {
    let harness = Harness::create().await;
    first_answers(&harness.psp, 1, answer).await;
    ask_twice(&harness).await.1
}

#[tokio::test]
async fn an_answer_that_settles_nothing_is_asked_for_again_with_the_same_key_and_body() {
    for status in [500, 503, 409, 429, 404, 302] {
        let between = after(ResponseTemplate::new(status)).await;
        assert_eq!(between.last_error, Some(format!("status {status}")));
        assert!(between.due_in_s <= BACKOFF_MAX_S, "{between:?}");
    }
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_no_answer() {
    let processing = json!({ "id": "ch_1", "status": "processing" });
    let no_code = json!({ "error": "no" });
    for (status, body, error) in [
        (201, json!("captured"), "201 with an unreadable body"),
        (200, processing, "200 with a charge in status processing"),
        (402, no_code, "402 with an unreadable body"),
    ] {
        let answer = ResponseTemplate::new(status).set_body_json(body);
        assert_eq!(after(answer).await.last_error.as_deref(), Some(error));
    }
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_asked_for_again_with_the_same_key_and_body() {
    let never = ResponseTemplate::new(201).set_delay(Duration::from_secs(30));
    assert_eq!(after(never).await.last_error.as_deref(), Some("timed out"));
}

#[tokio::test]
async fn a_connection_that_breaks_is_asked_for_again_with_the_same_key_and_body() {
    let harness = Harness::create().await;
    first_resets(&harness.psp).await;
    let (_, between) = ask_twice(&harness).await;
    assert_eq!(between.last_error.as_deref(), Some("connection lost"));
}

#[tokio::test]
async fn the_provider_s_own_word_on_when_to_come_back_is_kept() {
    let later = ResponseTemplate::new(429).insert_header("retry-after", "120");
    let between = after(later).await;
    let expected = 119.0..120.0 + BACKOFF_MAX_S;
    assert!(expected.contains(&between.due_in_s), "{between:?}");
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_leaves_the_outcome_unknown() {
    let harness = Harness::create().await;
    let order = harness.open_new().await;
    let mut stepper = harness.stepper_at("http://127.0.0.1:1", LONG);
    let answers = stepper.call().await;
    assert_eq!(harness.record(&answers).await.unwrap(), 0);
    let payment = harness.payment(order, 1).await;
    assert_eq!((&*payment.status, payment.tries), ("unknown", 1));
    assert_eq!(payment.last_error.as_deref(), Some("no connection"));
}
