//! R12: an answer that a newer version stored, met by this one.

use crate::service::{Service, order, order_with, orders_stored};

/// As if a version to come had written every record.
const FROM_THE_FUTURE: &str = "update idempotency_keys set response_version = 99, response_body = '\\x00', \
     response_headers = '[]'";

#[tokio::test]
async fn an_answer_in_an_unknown_format_is_derived_from_the_order() {
    let service = Service::start().await;
    let first = service.post("k-1", &order()).await;
    service.meddle(FROM_THE_FUTURE).await;
    let again = service.post("k-1", &order()).await;
    assert!(again.expect(200).is_replay());
    assert_eq!(again.json(), first.json());
    assert_eq!(service.stored().await, orders_stored(1));
}

#[tokio::test]
async fn another_request_under_such_a_key_is_still_refused() {
    let service = Service::start().await;
    service.post("k-1", &order()).await.expect(201);
    service.meddle(FROM_THE_FUTURE).await;
    let other = service.post("k-1", &order_with("customer_id", "c")).await;
    other.expect_problem(422, "idempotency_key_reused");
    assert_eq!(service.stored().await, orders_stored(1));
}

#[tokio::test]
async fn a_taken_reference_is_recognised_behind_an_unknown_format() {
    let service = Service::start().await;
    let cart = order_with("reference", "cart-1");
    let first = service.post("k-1", &cart).await;
    let same = service.post("k-2", &cart).await;
    same.expect(200);
    let mut other = cart.clone();
    other["customer_id"] = "cust-89".into();
    service.post("k-3", &other).await.expect(409);
    service.meddle(FROM_THE_FUTURE).await;

    let same_again = service.post("k-2", &cart).await;
    assert!(same_again.expect(200).is_replay());
    assert_eq!(same_again.json(), same.json());
    let other_again = service.post("k-3", &other).await;
    let problem = other_again.expect_problem(409, "order_exists");
    assert_eq!(problem["order_id"], first.order_id().to_string());
    assert!(other_again.is_replay());
}
