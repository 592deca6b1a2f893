//! A reference is unique per principal, under any key and at any time.

use futures_util::future::join_all;
use serde_json::Value;
use uuid::Uuid;

use crate::harness::{ACME, GLOBEX, Harness, Stored, order_with, orders_stored};

fn cart() -> Value {
    order_with("reference", "cart-4711")
}

fn other_cart() -> Value {
    let mut cart = cart();
    cart["customer_id"] = "cust-89".into();
    cart
}

/// The rows of one order and this many keys.
fn one_order(keys: i64) -> Stored {
    Stored {
        keys,
        ..orders_stored(1)
    }
}

#[tokio::test]
async fn same_content_under_a_new_key_returns_the_first_order() {
    let harness = Harness::start().await;
    let first = harness.post("k-1", &cart()).await;
    first.expect(201);
    let second = harness.post("k-2", &cart()).await;
    assert_eq!(second.expect(200).order_id(), first.order_id());
    assert_eq!(second.header("location"), first.header("location"));
    assert!(!second.is_replay());
    let again = harness.post("k-2", &cart()).await;
    assert!(again.expect(200).is_replay());
    assert_eq!(again.body, second.body);
    assert_eq!(harness.stored().await, one_order(2));
}

#[tokio::test]
async fn other_content_is_a_stored_and_replayed_conflict() {
    let harness = Harness::start().await;
    let first = harness.post("k-1", &cart()).await;
    let rejected = harness.post("k-2", &other_cart()).await;
    let problem = rejected.expect_problem(409, "order_exists");
    assert_eq!(problem["order_id"], first.order_id().to_string());
    assert_eq!(
        problem["order_url"],
        format!("/orders/{}", first.order_id())
    );
    let request_id = rejected.header("x-correlation-id").unwrap();
    assert_eq!(problem["correlation_id"], request_id);
    assert!(rejected.header("retry-after").is_none());

    let again = harness.post("k-2", &other_cart()).await;
    assert!(again.expect(409).is_replay());
    assert_eq!(again.body, rejected.body);
    assert_eq!(
        again.header("content-type"),
        rejected.header("content-type")
    );
    // The rejected request owns the key, like any other request.
    let reused = harness.post("k-2", &cart()).await;
    reused.expect_problem(422, "idempotency_key_reused");
    assert_eq!(harness.stored().await, one_order(2));
}

#[tokio::test]
async fn reference_outlives_every_key() {
    let harness = Harness::start().await;
    let first = harness.post("k-1", &cart()).await;
    harness.run_sql("truncate idempotency_keys").await;
    let same_key = harness.post("k-1", &cart()).await;
    assert_eq!(same_key.expect(200).order_id(), first.order_id());
    let new_key = harness.post("k-9", &other_cart()).await;
    new_key.expect_problem(409, "order_exists");
    assert_eq!(harness.stored().await, one_order(2));
}

#[tokio::test]
async fn double_click_with_many_keys_creates_one_order() {
    let harness = Harness::start_with(|config| config.intake_writers = 4).await;
    for round in 1..=10 {
        let cart = order_with("reference", format!("cart-{round}"));
        let post = async |click: usize| harness.post(&format!("{round}-{click}"), &cart).await;
        let responses = join_all((0..10).map(post)).await;
        let created = responses.iter().filter(|response| response.status == 201);
        assert_eq!(created.count(), 1);
        for response in &responses {
            assert!([200, 201].contains(&response.status), "{}", response.status);
            assert_eq!(response.order_id(), responses[0].order_id());
        }
        let expected = Stored {
            keys: round * 10,
            ..orders_stored(round)
        };
        assert_eq!(harness.stored().await, expected);
    }
}

#[tokio::test]
async fn one_of_two_concurrent_carts_with_one_name_conflicts() {
    let harness = Harness::start_with(|config| config.intake_writers = 4).await;
    let (cart, other_cart) = (cart(), other_cart());
    let (one, two) = tokio::join!(harness.post("k-1", &cart), harness.post("k-2", &other_cart));
    let (made, rejected) = if one.status == 201 {
        (one, two)
    } else {
        (two, one)
    };
    let problem = rejected.expect_problem(409, "order_exists");
    assert_eq!(problem["order_id"], made.expect(201).order_id().to_string());
    assert_eq!(harness.stored().await, one_order(2));
}

#[tokio::test]
async fn two_principals_may_use_the_same_reference() {
    let harness = Harness::start().await;
    let acme = harness.post_as(ACME, "k-1", &cart()).await;
    let globex = harness.post_as(GLOBEX, "k-1", &cart()).await;
    acme.expect(201);
    assert_ne!(globex.expect(201).order_id(), acme.order_id());
    assert_eq!(harness.stored().await, orders_stored(2));
}

#[tokio::test]
async fn put_with_a_taken_reference_is_a_named_conflict() {
    let harness = Harness::start().await;
    let first = harness.post("k-1", &cart()).await;
    let rejected = harness.put(Uuid::new_v4(), &cart()).await;
    let problem = rejected.expect_problem(409, "order_exists");
    assert_eq!(problem["order_id"], first.order_id().to_string());
    assert_eq!(harness.stored().await, one_order(1));
}

#[tokio::test]
async fn orders_without_a_reference_never_conflict() {
    let harness = Harness::start().await;
    let mut explicit_null = cart();
    explicit_null["reference"] = Value::Null;
    for key in ["k-1", "k-2"] {
        harness.post(key, &explicit_null).await.expect(201);
    }
    assert_eq!(harness.stored().await, orders_stored(2));
}
