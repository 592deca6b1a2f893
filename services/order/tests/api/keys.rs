//! R1 to R3: the key itself, whose it is, and what it stands for.

use reqwest::Method;
use reqwest::header::HeaderValue;
use serde_json::json;

use crate::service::{ACME, GLOBEX, KEY, Service, Stored, order, order_with, orders_stored, send};

#[tokio::test]
async fn a_post_without_a_key_is_refused_and_stores_nothing() {
    let service = Service::start().await;
    let answer = send(service.request(Method::POST, "/orders").json(&order())).await;
    answer.expect_problem(400, "malformed_idempotency_key");
    assert_eq!(service.stored().await, Stored::default());
}

#[tokio::test]
async fn a_malformed_key_is_refused_and_stores_nothing() {
    let service = Service::start().await;
    let too_long = "k".repeat(256);
    for key in [
        b"".as_slice(),
        b"\"\"",
        b"two words",
        b"\"two words\"",
        b"\"open",
        b"\"closed\"twice\"",
        b"\"with\";parameter=1",
        b"tab\there",
        b"k\xc3\xbc",
        b"k\xff",
        too_long.as_bytes(),
    ] {
        let value = HeaderValue::from_bytes(key).unwrap();
        let request = service.request(Method::POST, "/orders").json(&order());
        let answer = send(request.header(KEY, value)).await;
        answer.expect_problem(400, "malformed_idempotency_key");
    }
    assert_eq!(service.stored().await, Stored::default());
}

#[tokio::test]
async fn two_keys_on_one_request_are_refused_even_if_they_are_equal() {
    let service = Service::start().await;
    let request = service.request(Method::POST, "/orders").json(&order());
    let answer = send(request.header(KEY, "k-1").header(KEY, "k-1")).await;
    answer.expect_problem(400, "malformed_idempotency_key");
    assert_eq!(service.stored().await, Stored::default());
}

#[tokio::test]
async fn a_quoted_and_a_bare_value_are_the_same_key() {
    let service = Service::start().await;
    let first = service.post("k-1", &order()).await;
    first.expect(201);
    let second = service.post("\"k-1\"", &order()).await;
    second.expect(201);
    assert!(second.is_replay());
    assert_eq!(first.body, second.body);
    assert_eq!(service.stored().await, orders_stored(1));
}

#[tokio::test]
async fn a_key_may_have_255_characters_and_they_all_count() {
    let service = Service::start().await;
    let key = "k".repeat(255);
    service.post(&key, &order()).await.expect(201);
    let shorter = service.post(&key[1..], &order()).await;
    assert!(!shorter.expect(201).is_replay());
    assert_eq!(service.stored().await, orders_stored(2));
}

#[tokio::test]
async fn two_principals_may_use_the_same_key() {
    let service = Service::start().await;
    let acme = service.post_as(ACME, "k-1", &order()).await;
    let globex = service.post_as(GLOBEX, "k-1", &order()).await;
    acme.expect(201);
    globex.expect(201);
    assert!(!globex.is_replay());
    assert_ne!(acme.order_id(), globex.order_id());
    assert_eq!(service.stored().await, orders_stored(2));
}

#[tokio::test]
async fn the_fingerprints_of_one_request_by_two_principals_differ() {
    let service = Service::start().await;
    service.post_as(ACME, "k-1", &order()).await.expect(201);
    service.post_as(GLOBEX, "k-1", &order()).await.expect(201);
    let distinct: i64 =
        sqlx::query_scalar("select count(distinct fingerprint) from idempotency_keys")
            .fetch_one(&service.pool)
            .await
            .unwrap();
    assert_eq!(distinct, 2);
}

#[tokio::test]
async fn a_key_used_for_another_request_is_refused_and_still_belongs_to_the_first() {
    let service = Service::start().await;
    let first = service.post("k-1", &order()).await;
    first.expect(201);
    let other = order_with("customer_id", "cust-89");
    let refused = service.post("k-1", &other).await;
    refused.expect_problem(422, "idempotency_key_reused");
    assert_eq!(service.stored().await, orders_stored(1));
    let again = service.post("k-1", &order()).await;
    assert!(again.is_replay());
    assert_eq!(again.body, first.body);
}

#[tokio::test]
async fn a_request_spelled_differently_is_the_same_request() {
    let service = Service::start().await;
    let first = service.post("k-1", &order()).await;
    let respelled = r#" { "items":[ {"unit_price":2500, "quantity" : 2,
        "sku":"SKU\u002d99"} ], "payment_method": "pm_card_ok",
        "customer_id":"cust-88", "currency":"USD" } "#;
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(respelled).unwrap(),
        json!(order())
    );
    let request = service.request(Method::POST, "/orders").header(KEY, "k-1");
    let request = request.header("content-type", "application/json; charset=utf-8");
    let again = send(request.body(respelled)).await;
    assert!(again.expect(201).is_replay());
    assert_eq!(again.body, first.body);
    assert_eq!(service.stored().await, orders_stored(1));
}
