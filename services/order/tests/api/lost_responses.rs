//! The connection breaks while an order is stored: the service reads the outcome from the tables.

use testkit::ApiResponse;
use testkit::fault_proxy::Loss;
use testkit::outages::StoreBehindProxy;
use uuid::Uuid;

use crate::eventually;
use crate::harness::{Harness, KEY, order, order_with, orders_stored, store_behind_proxy};

/// Occurs only in the statement that stores the order.
const MARKED: &str = "k-marked";

async fn connected() -> (StoreBehindProxy, Harness) {
    let store = store_behind_proxy().await;
    let harness = Harness::start_behind_proxy(&store, |_| ()).await;
    // Principal, plans and connections are cached: the fault hits only the statement.
    harness.post("k-0", &order()).await.expect(201);
    (store, harness)
}

fn expect_placed_once(first: &ApiResponse, again: &ApiResponse) {
    assert!(!first.expect(201).is_replay());
    assert!(again.expect(201).is_replay());
    assert_eq!(first.body, again.body);
}

#[tokio::test]
async fn stored_order_is_found_after_the_connection_breaks() {
    let (store, harness) = connected().await;
    store.proxy.lose(Loss::Response, MARKED);
    let first = harness.post(MARKED, &order()).await;
    assert!(store.proxy.has_lost());
    expect_placed_once(&first, &harness.post(MARKED, &order()).await);
    assert_eq!(harness.stored().await, orders_stored(2));
}

#[tokio::test]
async fn stored_order_is_found_when_no_response_comes() {
    let (store, harness) = connected().await;
    store.proxy.lose(Loss::ResponseThenSilence, MARKED);
    let first = harness.post(MARKED, &order()).await;
    assert!(store.proxy.has_lost());
    expect_placed_once(&first, &harness.post(MARKED, &order()).await);
    assert_eq!(harness.stored().await, orders_stored(2));
}

#[tokio::test]
async fn order_with_reference_is_found_after_a_lost_commit() {
    let (store, harness) = connected().await;
    let cart = order_with("reference", "cart-1");
    let _held = harness.hold_maintenance().await;
    store.proxy.lose_commit(Loss::Response);
    let first = harness.post("k-1", &cart).await;
    assert!(store.proxy.has_lost());
    expect_placed_once(&first, &harness.post("k-1", &cart).await);
    assert_eq!(harness.stored().await, orders_stored(2));
}

#[tokio::test]
async fn retry_places_an_order_that_never_reached_the_store() {
    for (key, body, marker) in [
        (MARKED, order(), MARKED.as_bytes()),
        ("k-1", order_with("reference", "cart-1"), b"COMMIT\0"),
    ] {
        let (store, harness) = connected().await;
        let _held = harness.hold_maintenance().await;
        store.proxy.lose(Loss::Request, marker);
        let failed = harness.post(key, &body).await;
        assert!(store.proxy.has_lost());
        failed.expect_problem(503, "temporarily_unavailable");
        assert_eq!(failed.header("retry-after"), Some("1"));
        // Postgres may need a moment to see that the session, which holds the key, has ended.
        let again = eventually("the key is free", async || {
            let again = harness.post(key, &body).await;
            (again.status != 409).then_some(again)
        })
        .await;
        assert!(!again.expect(201).is_replay());
        assert_eq!(harness.stored().await, orders_stored(2));
    }
}

#[tokio::test]
async fn put_with_a_lost_response_returns_the_stored_order() {
    let (store, harness) = connected().await;
    let id = Uuid::new_v4();
    let body = order_with("customer_id", MARKED);
    store.proxy.lose(Loss::Response, MARKED);
    let first = harness.put(id, &body).await;
    assert!(store.proxy.has_lost());
    assert_eq!(first.expect(200).order_id(), id);
    harness.put(id, &body).await.expect(200);
    // Another order under this id is a conflict.
    let other = order_with("customer_id", "k-other");
    store.proxy.lose(Loss::Request, "k-other");
    let rejected = harness.put(id, &other).await;
    assert!(store.proxy.has_lost());
    rejected.expect_problem(409, "order_exists");
    assert_eq!(harness.stored().await.orders, 2);
}

#[tokio::test]
async fn retry_reports_a_taken_reference() {
    let (store, harness) = connected().await;
    let cart = order_with("reference", "cart-1");
    let first = harness.post("k-1", &cart).await.expect(201).order_id();
    let _held = harness.hold_maintenance().await;
    store.proxy.lose_commit(Loss::Response);
    let lost = harness.post("k-2", &cart).await;
    assert!(store.proxy.has_lost());
    lost.expect_problem(503, "temporarily_unavailable");
    let request = harness.request(reqwest::Method::POST, "/orders");
    let again = crate::harness::send(request.header(KEY, "k-2").json(&cart)).await;
    assert_eq!(again.expect(200).order_id(), first);
    assert_eq!(harness.stored().await.orders, 2);
}
