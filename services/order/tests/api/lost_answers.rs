//! The connection goes while an order is being stored: what became of it is read back, never guessed.

use testkit::fault_proxy::Loss;
use testkit::outages::StoreBehindProxy;
use uuid::Uuid;

use crate::answer::Answer;
use crate::service::{KEY, Service, far_store, order, order_with, orders_stored};

/// Occurs in the statement that stores the order, and in nothing that goes before it.
const MARKED: &str = "k-marked";

async fn connected() -> (StoreBehindProxy, Service) {
    let store = far_store().await;
    let service = Service::start_far_from(&store, |_| ()).await;
    // Caller, plans and connections are there: what is cut is the statement and nothing else.
    service.post("k-0", &order()).await.expect(201);
    (store, service)
}

fn expect_placed_once(first: &Answer, again: &Answer) {
    assert!(!first.expect(201).is_replay());
    assert!(again.expect(201).is_replay());
    assert_eq!(first.body, again.body);
}

#[tokio::test]
async fn an_order_that_was_stored_is_answered_by_the_request_whose_answer_was_cut_off() {
    let (store, service) = connected().await;
    store.proxy.lose(Loss::Response, MARKED);
    let first = service.post(MARKED, &order()).await;
    assert!(store.proxy.has_lost());
    expect_placed_once(&first, &service.post(MARKED, &order()).await);
    assert_eq!(service.stored().await, orders_stored(2));
}

#[tokio::test]
async fn an_order_that_was_stored_is_found_when_its_answer_never_comes() {
    let (store, service) = connected().await;
    store.proxy.lose(Loss::ResponseThenSilence, MARKED);
    let first = service.post(MARKED, &order()).await;
    assert!(store.proxy.has_lost());
    expect_placed_once(&first, &service.post(MARKED, &order()).await);
    assert_eq!(service.stored().await, orders_stored(2));
}

#[tokio::test]
async fn an_order_with_a_reference_is_found_after_a_commit_without_an_answer() {
    let (store, service) = connected().await;
    let cart = order_with("reference", "cart-1");
    let _held = service.hold_maintenance().await;
    store.proxy.lose_commit(Loss::Response);
    let first = service.post("k-1", &cart).await;
    assert!(store.proxy.has_lost());
    expect_placed_once(&first, &service.post("k-1", &cart).await);
    assert_eq!(service.stored().await, orders_stored(2));
}

#[tokio::test]
async fn an_order_that_never_reached_the_store_is_not_assumed_and_the_retry_places_it() {
    for (key, body, marker) in [
        (MARKED, order(), MARKED.as_bytes()),
        ("k-1", order_with("reference", "cart-1"), b"COMMIT\0"),
    ] {
        let (store, service) = connected().await;
        store.proxy.lose(Loss::Request, marker);
        let failed = service.post(key, &body).await;
        assert!(store.proxy.has_lost());
        failed.expect_problem(503, "temporarily_unavailable");
        assert_eq!(failed.header("retry-after"), Some("1"));
        let again = service.post(key, &body).await;
        assert!(!again.expect(201).is_replay());
        assert_eq!(service.stored().await, orders_stored(2));
    }
}

#[tokio::test]
async fn a_put_whose_answer_was_lost_is_answered_with_the_order_that_is_there() {
    let (store, service) = connected().await;
    let id = Uuid::new_v4();
    let body = order_with("customer_id", MARKED);
    store.proxy.lose(Loss::Response, MARKED);
    let first = service.put(id, &body).await;
    assert!(store.proxy.has_lost());
    assert_eq!(first.expect(200).order_id(), id);
    service.put(id, &body).await.expect(200);
    // Another order under this id is refused, not mistaken for it.
    let other = order_with("customer_id", "k-other");
    store.proxy.lose(Loss::Request, "k-other");
    let refused = service.put(id, &other).await;
    assert!(store.proxy.has_lost());
    refused.expect_problem(409, "order_exists");
    assert_eq!(service.stored().await.orders, 2);
}

#[tokio::test]
async fn a_reference_that_was_taken_is_told_by_the_retry() {
    let (store, service) = connected().await;
    let cart = order_with("reference", "cart-1");
    let first = service.post("k-1", &cart).await.expect(201).order_id();
    let _held = service.hold_maintenance().await;
    store.proxy.lose_commit(Loss::Response);
    let lost = service.post("k-2", &cart).await;
    assert!(store.proxy.has_lost());
    lost.expect_problem(503, "temporarily_unavailable");
    let request = service.request(reqwest::Method::POST, "/orders");
    let again = crate::service::send(request.header(KEY, "k-2").json(&cart)).await;
    assert_eq!(again.expect(200).order_id(), first);
    assert_eq!(service.stored().await.orders, 2);
}
