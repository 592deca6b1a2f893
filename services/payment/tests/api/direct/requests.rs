//! Invalid requests, authentication, and reading payments.

use reqwest::Method;
use serde_json::json;
use uuid::Uuid;

use super::{NO_WAIT, charge_due, stored};
use crate::api_client::{ACME, charge, charge_with, send};
use crate::api_server::ApiServer;
use crate::harness::Harness;
use crate::provider::mount_first_charge_responses;

#[tokio::test]
async fn missing_or_malformed_key_is_an_error() {
    let harness = Harness::create().await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let request = || {
        server
            .client
            .request(Method::POST, "/payments")
            .bearer_auth(ACME)
    };
    let without = send(request().json(&charge())).await;
    without.expect_problem(400, "malformed_idempotency_key");
    let long = "k".repeat(256);
    for key in ["two words", "", "\"open", &*long] {
        let response = server.client.post(key, &charge()).await;
        response.expect_problem(400, "malformed_idempotency_key");
    }
    assert_eq!(stored(&harness).await, [0; 4]);
}

#[tokio::test]
async fn invalid_payment_is_an_error_and_leaves_the_key_free() {
    let harness = Harness::create().await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    for body in [
        json!({}),
        json!([]),
        charge_with("amount", 0),
        charge_with("amount", 50.5),
        charge_with("amount", "5000"),
        charge_with("currency", "DOGE"),
        charge_with("currency", "BGN"),
        charge_with("payment_method", ""),
        charge_with("reference", ""),
        charge_with("extra", 1),
    ] {
        let response = server.client.post("k-1", &body).await;
        response.expect_problem(422, "invalid_payment");
    }
    let request = || {
        let post = server.client.request(Method::POST, "/payments");
        post.bearer_auth(ACME).header("idempotency-key", "k-1")
    };
    let json = |text: &str| {
        let request = request().header("content-type", "application/json");
        send(request.body(text.to_owned()))
    };
    json("{").await.expect_problem(400, "malformed_json");
    let twice = charge().to_string().replacen('{', r#"{"amount":1,"#, 1);
    json(&twice).await.expect_problem(400, "malformed_json");
    let text = send(request().body("{}")).await;
    text.expect_problem(415, "unsupported_media_type");
    let huge = json(&format!("{{\"reference\":\"{}\"}}", "r".repeat(70_000))).await;
    huge.expect_problem(413, "body_too_large");
    assert_eq!(stored(&harness).await, [0; 4]);
    server.client.post("k-1", &charge()).await.expect(202);
}

#[tokio::test]
async fn card_number_is_rejected_and_not_repeated() {
    let harness = Harness::create().await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    for number in [
        json!("4111111111111111"),
        json!("4111-1111-1111-1111"),
        json!("4111 1111 1111 1111"),
        json!(4_111_111_111_111_111_u64),
    ] {
        let body = charge_with("payment_method", number);
        let response = server.client.post("k-1", &body).await;
        let problem = response.expect_problem(422, "card_number");
        let detail = problem["detail"].as_str().unwrap();
        assert!(!detail.contains(|c: char| c.is_ascii_digit()), "{detail}");
    }
    assert_eq!(stored(&harness).await, [0; 4]);
}

#[tokio::test]
async fn nothing_is_shown_or_stored_without_a_valid_api_key() {
    let harness = Harness::create().await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let one = format!("/payments/{}", Uuid::new_v4());
    for authorization in ["", "Bearer", "Bearer demo-key-unknown", "Basic azox"] {
        for (method, path) in [(Method::POST, "/payments"), (Method::GET, &*one)] {
            let request = server.client.request(method, path);
            let request = request.header("authorization", authorization);
            let response = send(request.header("idempotency-key", "k-1").json(&charge())).await;
            response.expect_problem(401, "unauthenticated");
            assert_eq!(response.header("www-authenticate"), Some("Bearer"));
        }
    }
    assert_eq!(stored(&harness).await, [0; 4]);
}

#[tokio::test]
async fn payment_shows_its_progress() {
    let harness = Harness::create().await;
    mount_first_charge_responses(&harness.psp, 1, wiremock::ResponseTemplate::new(503)).await;
    crate::provider::mount_captures(&harness.psp).await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let id = server.client.post("k-1", &charge()).await.payment_id();
    let pending = server.client.payment(id).await;
    assert_eq!(
        (&pending["status"], &pending["tries"]),
        (&json!("pending"), &json!(0))
    );

    assert_eq!(charge_due(&harness).await, 0);
    let unknown = server.client.payment(id).await;
    assert_eq!(unknown["status"], "unknown");
    assert_eq!(
        (&unknown["reason"], &unknown["tries"]),
        (&json!("status 503"), &json!(1))
    );
    assert!(unknown["next_try_at"].is_string());

    harness.pass_time().await;
    assert_eq!(charge_due(&harness).await, 1);
    let captured = server.client.payment(id).await;
    assert_eq!(captured["status"], "captured");
    assert_eq!(captured["charge_id"], format!("ch_direct:{id}"));
    assert_eq!(captured["next_try_at"], json!(null));
}

#[tokio::test]
async fn only_direct_payments_are_shown() {
    let harness = Harness::create().await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let of_an_order = format!("/payments/{}", harness.open_new().await);
    for path in [&*of_an_order, "/payments/7"] {
        let response = server.client.get(path).await;
        response.expect_problem(404, "payment_not_found");
    }
}
