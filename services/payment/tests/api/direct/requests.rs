//! What is not a request for a charge, and who may ask.

use reqwest::Method;
use serde_json::json;
use uuid::Uuid;

use super::{NO_WAIT, charge_what_is_due, stored};
use crate::front::{ACME, Front, charge, charge_with, send};
use crate::harness::Harness;
use crate::provider::first_answers;

#[tokio::test]
async fn a_key_that_is_missing_or_malformed_is_refused() {
    let harness = Harness::create().await;
    let front = Front::open(&harness, NO_WAIT).await;
    let request = || {
        front
            .caller
            .request(Method::POST, "/payments")
            .bearer_auth(ACME)
    };
    let without = send(request().json(&charge())).await;
    without.expect_problem(400, "malformed_idempotency_key");
    let long = "k".repeat(256);
    for key in ["two words", "", "\"open", &*long] {
        let answer = front.caller.post(key, &charge()).await;
        answer.expect_problem(400, "malformed_idempotency_key");
    }
    assert_eq!(stored(&harness).await, [0; 4]);
}

#[tokio::test]
async fn what_is_not_a_payment_is_refused_and_leaves_the_key_free() {
    let harness = Harness::create().await;
    let front = Front::open(&harness, NO_WAIT).await;
    for body in [
        json!({}),
        json!([]),
        charge_with("amount", 0),
        charge_with("amount", 50.5),
        charge_with("amount", "5000"),
        charge_with("currency", "DOGE"),
        charge_with("payment_method", ""),
        charge_with("reference", ""),
        charge_with("extra", 1),
    ] {
        let answer = front.caller.post("k-1", &body).await;
        answer.expect_problem(422, "invalid_payment");
    }
    let request = || {
        let post = front.caller.request(Method::POST, "/payments");
        post.bearer_auth(ACME).header("idempotency-key", "k-1")
    };
    let json = |text: &str| {
        let request = request().header("content-type", "application/json");
        send(request.body(text.to_owned()))
    };
    json("{").await.expect_problem(400, "malformed_json");
    let text = send(request().body("{}")).await;
    text.expect_problem(415, "unsupported_media_type");
    let huge = json(&format!("{{\"reference\":\"{}\"}}", "r".repeat(70_000))).await;
    huge.expect_problem(413, "body_too_large");
    assert_eq!(stored(&harness).await, [0; 4]);
    front.caller.post("k-1", &charge()).await.expect(202);
}

#[tokio::test]
async fn without_a_valid_api_key_nothing_is_shown_and_nothing_is_stored() {
    let harness = Harness::create().await;
    let front = Front::open(&harness, NO_WAIT).await;
    let one = format!("/payments/{}", Uuid::new_v4());
    for authorization in ["", "Bearer", "Bearer demo-key-nobody", "Basic azox"] {
        for (method, path) in [(Method::POST, "/payments"), (Method::GET, &*one)] {
            let request = front.caller.request(method, path);
            let request = request.header("authorization", authorization);
            let answer = send(request.header("idempotency-key", "k-1").json(&charge())).await;
            answer.expect_problem(401, "unauthenticated");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    assert_eq!(stored(&harness).await, [0; 4]);
}

#[tokio::test]
async fn a_payment_shows_how_far_it_is() {
    let harness = Harness::create().await;
    first_answers(&harness.psp, 1, wiremock::ResponseTemplate::new(503)).await;
    crate::provider::captures(&harness.psp).await;
    let front = Front::open(&harness, NO_WAIT).await;
    let id = front.caller.post("k-1", &charge()).await.payment_id();
    let pending = front.caller.payment(id).await;
    assert_eq!(
        (&pending["status"], &pending["tries"]),
        (&json!("pending"), &json!(0))
    );

    assert_eq!(charge_what_is_due(&harness).await, 0);
    let unknown = front.caller.payment(id).await;
    assert_eq!(unknown["status"], "unknown");
    assert_eq!(
        (&unknown["reason"], &unknown["tries"]),
        (&json!("status 503"), &json!(1))
    );
    assert!(unknown["next_try_at"].is_string());

    harness.pass_time().await;
    assert_eq!(charge_what_is_due(&harness).await, 1);
    let captured = front.caller.payment(id).await;
    assert_eq!(captured["status"], "captured");
    assert_eq!(captured["charge_id"], format!("ch_{id}"));
    assert_eq!(captured["next_try_at"], json!(null));
}

#[tokio::test]
async fn only_payments_that_were_asked_for_directly_are_shown() {
    let harness = Harness::create().await;
    let front = Front::open(&harness, NO_WAIT).await;
    let of_an_order = format!("/payments/{}", harness.open_new().await);
    for path in [&*of_an_order, "/payments/7"] {
        let answer = front.caller.get(path).await;
        answer.expect_problem(404, "payment_not_found");
    }
}
