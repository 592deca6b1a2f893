//! Every error has the same shape and the correlation id of its request.

use reqwest::{Method, RequestBuilder};
use uuid::Uuid;

use crate::harness::{Harness, KEY, Stored, order, order_with, send};

#[tokio::test]
async fn every_error_has_the_correlation_id_of_its_request() {
    let harness = Harness::start().await;
    let id = Uuid::new_v4();
    harness
        .put(id, &order_with("reference", "cart-1"))
        .await
        .expect(201);
    let stored = harness.stored().await;
    let one = format!("/orders/{id}");
    let post = || harness.request(Method::POST, "/orders").header(KEY, "k-1");
    let get = |path: &str| harness.request(Method::GET, path);
    let cases: Vec<(u16, &str, RequestBuilder)> = vec![
        (
            400,
            "malformed_idempotency_key",
            harness.request(Method::POST, "/orders").json(&order()),
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
            harness.anonymous(Method::GET, "/orders"),
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
            harness.request(Method::DELETE, "/orders"),
        ),
        (
            409,
            "order_exists",
            harness.request(Method::PUT, &one).json(&order()),
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
        let response = send(request.header("x-correlation-id", &correlation_id)).await;
        let problem = response.expect_problem(status, code);
        assert_eq!(problem["correlation_id"], correlation_id, "{code}");
        assert_eq!(
            response.header("x-correlation-id"),
            Some(correlation_id.as_str())
        );
    }
    assert_eq!(harness.stored().await, stored);
}

#[tokio::test]
async fn success_returns_and_stores_the_correlation_id() {
    let harness = Harness::start().await;
    let request = harness.request(Method::POST, "/orders").header(KEY, "k-1");
    let response = send(request.header("x-correlation-id", "req-7").json(&order())).await;
    assert_eq!(
        response.expect(201).header("x-correlation-id"),
        Some("req-7")
    );
    let stored: String = sqlx::query_scalar("select correlation_id from orders")
        .fetch_one(&harness.pool)
        .await
        .unwrap();
    assert_eq!(stored, "req-7");
}

#[tokio::test]
async fn unsupported_method_gets_the_allowed_ones() {
    let harness = Harness::start().await;
    let response = send(harness.request(Method::DELETE, "/orders")).await;
    response.expect_problem(405, "method_not_allowed");
    let mut allowed: Vec<&str> = response.header("allow").unwrap().split(',').collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["GET", "HEAD", "POST"]);
    assert_eq!(harness.stored().await, Stored::default());
}
