//! A response that a newer version stored in a format that this version cannot read.

use crate::harness::{Harness, order, order_with, orders_stored};

/// Rewrites every record as a future version might.
const FUTURE_FORMAT: &str = "update idempotency_keys set response_version = 99, response_body = '\\x00', \
     response_headers = '[]'";

#[tokio::test]
async fn unknown_response_format_is_derived_from_the_order() {
    let harness = Harness::start().await;
    let first = harness.post("k-1", &order()).await;
    harness.run_sql(FUTURE_FORMAT).await;
    let again = harness.post("k-1", &order()).await;
    assert!(again.expect(200).is_replay());
    assert_eq!(again.json(), first.json());
    assert_eq!(harness.stored().await, orders_stored(1));
}

#[tokio::test]
async fn unknown_response_format_still_detects_key_reuse() {
    let harness = Harness::start().await;
    harness.post("k-1", &order()).await.expect(201);
    harness.run_sql(FUTURE_FORMAT).await;
    let other = harness.post("k-1", &order_with("customer_id", "c")).await;
    other.expect_problem(422, "idempotency_key_reused");
    assert_eq!(harness.stored().await, orders_stored(1));
}

#[tokio::test]
async fn unknown_response_format_keeps_a_taken_reference() {
    let harness = Harness::start().await;
    let cart = order_with("reference", "cart-1");
    let first = harness.post("k-1", &cart).await;
    let same = harness.post("k-2", &cart).await;
    same.expect(200);
    let mut other = cart.clone();
    other["customer_id"] = "cust-89".into();
    harness.post("k-3", &other).await.expect(409);
    harness.run_sql(FUTURE_FORMAT).await;

    let same_again = harness.post("k-2", &cart).await;
    assert!(same_again.expect(200).is_replay());
    assert_eq!(same_again.json(), same.json());
    let other_again = harness.post("k-3", &other).await;
    let problem = other_again.expect_problem(409, "order_exists");
    assert_eq!(problem["order_id"], first.order_id().to_string());
    assert!(other_again.is_replay());
}
