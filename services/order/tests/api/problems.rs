//! R13: every error has the same shape, and carries the request's own correlation id.

use reqwest::{Method, RequestBuilder};
use uuid::Uuid;

use crate::service::{KEY, Service, Stored, order, order_with, send};

#[tokio::test]
async fn every_kind_of_error_carries_the_correlation_id_of_its_request() {
    let service = Service::start().await;
    let id = Uuid::new_v4();
    service
        .put(id, &order_with("reference", "cart-1"))
        .await
        .expect(201);
    let stored = service.stored().await;
    let one = format!("/orders/{id}");
    let post = || service.request(Method::POST, "/orders").header(KEY, "k-1");
    let get = |path: &str| service.request(Method::GET, path);
    let cases: Vec<(u16, &str, RequestBuilder)> = vec![
        (
            400,
            "malformed_idempotency_key",
            service.request(Method::POST, "/orders").json(&order()),
        ),
        (
            400,
            "malformed_json",
            post().header("content-type", "application/json").body("{"),
        ),
        (400, "malformed_order_id", get("/orders/1")),
        (400, "malformed_query", get("/orders?limit=0")),
        (
            401,
            "unauthenticated",
            service.anonymous(Method::GET, "/orders"),
        ),
        (
            404,
            "order_not_found",
            get(&format!("/orders/{}", Uuid::new_v4())),
        ),
        (404, "not_found", get("/nowhere")),
        (
            405,
            "method_not_allowed",
            service.request(Method::DELETE, "/orders"),
        ),
        (
            409,
            "order_exists",
            service.request(Method::PUT, &one).json(&order()),
        ),
        (
            415,
            "unsupported_media_type",
            post().body(order().to_string()),
        ),
        (
            422,
            "invalid_order",
            post().json(&order_with("currency", "usd")),
        ),
    ];
    for (number, (status, code, request)) in cases.into_iter().enumerate() {
        let correlation_id = format!("req-{number}");
        let answer = send(request.header("x-correlation-id", &correlation_id)).await;
        let problem = answer.expect_problem(status, code);
        assert_eq!(problem["correlation_id"], correlation_id, "{code}");
        assert_eq!(
            answer.header("x-correlation-id"),
            Some(correlation_id.as_str())
        );
    }
    assert_eq!(service.stored().await, stored);
}

#[tokio::test]
async fn a_success_echoes_the_correlation_id_and_stores_it() {
    let service = Service::start().await;
    let request = service.request(Method::POST, "/orders").header(KEY, "k-1");
    let answer = send(request.header("x-correlation-id", "req-7").json(&order())).await;
    assert_eq!(answer.expect(201).header("x-correlation-id"), Some("req-7"));
    let stored: String = sqlx::query_scalar("select correlation_id from orders")
        .fetch_one(&service.pool)
        .await
        .unwrap();
    assert_eq!(stored, "req-7");
}

#[tokio::test]
async fn a_method_that_a_url_does_not_take_is_answered_with_those_it_takes() {
    let service = Service::start().await;
    let answer = send(service.request(Method::DELETE, "/orders")).await;
    answer.expect_problem(405, "method_not_allowed");
    let mut allowed: Vec<&str> = answer.header("allow").unwrap().split(',').collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["GET", "HEAD", "POST"]);
    assert_eq!(service.stored().await, Stored::default());
}
