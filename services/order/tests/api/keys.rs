//! The idempotency key: its syntax, its scope and its fingerprint.

use reqwest::Method;
use reqwest::header::HeaderValue;
use serde_json::json;

use crate::harness::{ACME, GLOBEX, Harness, KEY, Stored, order, order_with, orders_stored, send};

#[tokio::test]
async fn post_without_a_key_stores_nothing() {
    let harness = Harness::start().await;
    let response = send(harness.request(Method::POST, "/orders").json(&order())).await;
    response.expect_problem(400, "malformed_idempotency_key");
    assert_eq!(harness.stored().await, Stored::default());
}

#[tokio::test]
async fn malformed_key_stores_nothing() {
    let harness = Harness::start().await;
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
        let request = harness.request(Method::POST, "/orders").json(&order());
        let response = send(request.header(KEY, value)).await;
        response.expect_problem(400, "malformed_idempotency_key");
    }
    assert_eq!(harness.stored().await, Stored::default());
}

#[tokio::test]
async fn two_equal_keys_on_one_request_are_rejected() {
    let harness = Harness::start().await;
    let request = harness.request(Method::POST, "/orders").json(&order());
    let response = send(request.header(KEY, "k-1").header(KEY, "k-1")).await;
    response.expect_problem(400, "malformed_idempotency_key");
    assert_eq!(harness.stored().await, Stored::default());
}

#[tokio::test]
async fn quoted_and_bare_values_are_the_same_key() {
    let harness = Harness::start().await;
    let first = harness.post("k-1", &order()).await;
    first.expect(201);
    let second = harness.post("\"k-1\"", &order()).await;
    second.expect(201);
    assert!(second.is_replay());
    assert_eq!(first.body, second.body);
    assert_eq!(harness.stored().await, orders_stored(1));
}

#[tokio::test]
async fn all_255_characters_of_a_key_count() {
    let harness = Harness::start().await;
    let key = "k".repeat(255);
    harness.post(&key, &order()).await.expect(201);
    let shorter = harness.post(&key[1..], &order()).await;
    assert!(!shorter.expect(201).is_replay());
    assert_eq!(harness.stored().await, orders_stored(2));
}

#[tokio::test]
async fn two_principals_may_use_the_same_key() {
    let harness = Harness::start().await;
    let acme = harness.post_as(ACME, "k-1", &order()).await;
    let globex = harness.post_as(GLOBEX, "k-1", &order()).await;
    acme.expect(201);
    globex.expect(201);
    assert!(!globex.is_replay());
    assert_ne!(acme.order_id(), globex.order_id());
    assert_eq!(harness.stored().await, orders_stored(2));
}

#[tokio::test]
async fn fingerprints_of_two_principals_differ() {
    let harness = Harness::start().await;
    harness.post_as(ACME, "k-1", &order()).await.expect(201);
    harness.post_as(GLOBEX, "k-1", &order()).await.expect(201);
    let distinct: i64 =
        sqlx::query_scalar("select count(distinct fingerprint) from idempotency_keys")
            .fetch_one(&harness.pool)
            .await
            .unwrap();
    assert_eq!(distinct, 2);
}

#[tokio::test]
async fn reused_key_still_belongs_to_its_first_request() {
    let harness = Harness::start().await;
    let first = harness.post("k-1", &order()).await;
    first.expect(201);
    let other = order_with("customer_id", "cust-89");
    let rejected = harness.post("k-1", &other).await;
    rejected.expect_problem(422, "idempotency_key_reused");
    assert_eq!(harness.stored().await, orders_stored(1));
    let again = harness.post("k-1", &order()).await;
    assert!(again.is_replay());
    assert_eq!(again.body, first.body);
}

#[tokio::test]
async fn differently_formatted_json_is_the_same_request() {
    let harness = Harness::start().await;
    let first = harness.post("k-1", &order()).await;
    let respelled = r#" { "items":[ {"unit_price":2500, "quantity" : 2,
        "sku":"SKU\u002d99"} ], "payment_method": "pm_card_ok",
        "customer_id":"cust-88", "currency":"USD" } "#;
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(respelled).unwrap(),
        json!(order())
    );
    let request = harness.request(Method::POST, "/orders").header(KEY, "k-1");
    let request = request.header("content-type", "application/json; charset=utf-8");
    let again = send(request.body(respelled)).await;
    assert!(again.expect(201).is_replay());
    assert_eq!(again.body, first.body);
    assert_eq!(harness.stored().await, orders_stored(1));
}
