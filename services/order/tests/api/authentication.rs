//! Every route needs a valid bearer API key.

use reqwest::Method;
use uuid::Uuid;

use crate::harness::{ACME, Harness, KEY, Stored, order, send};

#[tokio::test]
async fn invalid_api_key_shows_and_stores_nothing() {
    let harness = Harness::start().await;
    let one = format!("/orders/{}", Uuid::new_v4());
    let payments = format!("{one}/payments");
    for authorization in [
        None,
        Some(""),
        Some("Bearer"),
        Some("Bearer "),
        Some("Bearer demo-key-unknown"),
        Some("Bearer demo-key-acme2"),
        Some("Bearer demo-key-acme demo-key-acme"),
        Some("Basic ZGVtby1rZXktYWNtZTo="),
        Some("demo-key-acme"),
    ] {
        for (method, path) in [
            (Method::POST, "/orders"),
            (Method::GET, "/orders"),
            (Method::PUT, one.as_str()),
            (Method::GET, one.as_str()),
            (Method::DELETE, one.as_str()),
            (Method::POST, payments.as_str()),
        ] {
            let mut request = harness
                .anonymous(method, path)
                .header(KEY, "k-1")
                .json(&order());
            if let Some(value) = authorization {
                request = request.header("authorization", value);
            }
            let response = send(request).await;
            response.expect_problem(401, "unauthenticated");
            assert_eq!(response.header("www-authenticate"), Some("Bearer"));
        }
    }
    assert_eq!(harness.stored().await, Stored::default());
}

#[tokio::test]
async fn bearer_scheme_is_case_insensitive() {
    let harness = Harness::start().await;
    let request = harness.anonymous(Method::GET, "/orders");
    let response = send(request.header("authorization", format!("bEARER {ACME}"))).await;
    response.expect(200);
}

#[tokio::test]
async fn authentication_is_checked_before_the_body() {
    let harness = Harness::start().await;
    let request = harness
        .anonymous(Method::POST, "/orders")
        .body("not even JSON");
    send(request).await.expect_problem(401, "unauthenticated");
}

#[tokio::test]
async fn policy_document_and_probes_need_no_api_key() {
    let harness = Harness::start().await;
    for path in [
        "/idempotency-policy",
        "/openapi.json",
        "/healthz",
        "/readyz",
    ] {
        send(harness.anonymous(Method::GET, path)).await.expect(200);
    }
}
