//! Who may call: a bearer API key, or nobody.

use reqwest::Method;
use uuid::Uuid;

use crate::service::{ACME, KEY, Service, Stored, order, send};

#[tokio::test]
async fn without_a_valid_api_key_nothing_is_shown_and_nothing_is_stored() {
    let service = Service::start().await;
    let one = format!("/orders/{}", Uuid::new_v4());
    let payments = format!("{one}/payments");
    for authorization in [
        None,
        Some(""),
        Some("Bearer"),
        Some("Bearer "),
        Some("Bearer demo-key-nobody"),
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
            let mut request = service
                .anonymous(method, path)
                .header(KEY, "k-1")
                .json(&order());
            if let Some(value) = authorization {
                request = request.header("authorization", value);
            }
            let answer = send(request).await;
            answer.expect_problem(401, "unauthenticated");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    assert_eq!(service.stored().await, Stored::default());
}

#[tokio::test]
async fn the_scheme_may_be_written_in_any_case() {
    let service = Service::start().await;
    let request = service.anonymous(Method::GET, "/orders");
    let answer = send(request.header("authorization", format!("bEARER {ACME}"))).await;
    answer.expect(200);
}

#[tokio::test]
async fn who_is_not_known_is_told_so_before_anything_about_the_request() {
    let service = Service::start().await;
    let request = service
        .anonymous(Method::POST, "/orders")
        .body("not even JSON");
    send(request).await.expect_problem(401, "unauthenticated");
}

#[tokio::test]
async fn the_policy_the_document_and_the_probes_are_for_everybody() {
    let service = Service::start().await;
    for path in [
        "/idempotency-policy",
        "/openapi.json",
        "/healthz",
        "/readyz",
    ] {
        send(service.anonymous(Method::GET, path)).await.expect(200);
    }
}
