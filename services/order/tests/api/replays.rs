//! Replays, concurrent duplicates, and failures that store nothing.

use futures_util::future::join_all;
use idempotency::{Key, Scope};
use sqlx::{Connection as _, PgConnection};

use crate::eventually;
use crate::harness::{Harness, Stored, migrated, order, order_with, orders_stored};

const DUPLICATES: usize = 50;

#[tokio::test]
async fn repeated_request_gets_the_same_bytes() {
    let harness = Harness::start().await;
    let first = harness.post("k-1", &order()).await;
    first.expect(201);
    assert!(!first.headers.contains_key("idempotent-replayed"));
    let location = format!("/orders/{}", first.order_id());
    assert_eq!(first.header("location"), Some(location.as_str()));
    // The order has changed, but its first response has not: nothing is recomputed.
    harness
        .run_sql("update orders set status = 'paid', version = 2")
        .await;
    for _ in 0..3 {
        let again = harness.post("k-1", &order()).await;
        assert_eq!(again.status, first.status);
        assert_eq!(again.body, first.body);
        for name in ["content-type", "content-length", "location"] {
            assert_eq!(again.header(name), first.header(name), "{name}");
        }
        assert!(again.is_replay());
    }
    assert_eq!(harness.stored().await, orders_stored(1));
}

#[tokio::test]
async fn replay_survives_a_restart() {
    let database_url = migrated().await;
    let before = Harness::start_on(&database_url, |_| ()).await;
    let first = before.post("k-1", &order()).await;
    drop(before);
    let after = Harness::start_on(&database_url, |_| ()).await;
    let again = after.post("k-1", &order()).await;
    assert!(again.expect(201).is_replay());
    assert_eq!(again.body, first.body);
}

#[tokio::test]
async fn concurrent_duplicates_create_one_order_and_event() {
    let harness = Harness::start().await;
    let order = order();
    let responses = join_all((0..DUPLICATES).map(|_| harness.post("k-1", &order))).await;
    assert_eq!(harness.stored().await, orders_stored(1));
    let (made, in_flight): (Vec<_>, Vec<_>) = responses
        .iter()
        .partition(|response| response.status == 201);
    let first = made.first().expect("one of them came first");
    let originals = made.iter().filter(|response| !response.is_replay()).count();
    assert_eq!(originals, 1);
    assert!(made.iter().all(|response| response.body == first.body));
    for response in in_flight {
        response.expect_problem(409, "idempotency_key_in_flight");
        assert_eq!(response.header("retry-after"), Some("1"));
        // The retry with the same key finds the response.
        let again = harness.post("k-1", &order).await;
        assert!(again.is_replay());
        assert_eq!(again.body, first.body);
    }
    assert_eq!(harness.stored().await, orders_stored(1));
}

#[tokio::test]
async fn duplicates_over_many_writers_create_one_order_per_key() {
    let harness = Harness::start_with(|config| config.intake_writers = 4).await;
    let order = order();
    let post = async |number: usize| {
        let key = format!("k-{}", number % 10);
        let placed = async || {
            let response = harness.post(&key, &order).await;
            (response.status == 201).then_some(response)
        };
        eventually("the key has its response", placed).await
    };
    let responses = join_all((0..100).map(post)).await;
    for (number, response) in responses.iter().enumerate() {
        assert_eq!(response.body, responses[number % 10].body);
    }
    assert_eq!(harness.stored().await, orders_stored(10));
}

#[tokio::test]
async fn key_in_flight_is_reported_without_a_wait() {
    let database_url = migrated().await;
    let harness = Harness::start_on(&database_url, |_| ()).await;
    let key = Key::parse("k-1").unwrap();
    let scope = Scope {
        principal_id: "acme",
        route: "POST /orders",
        key: &key,
    };
    // Simulates a request that another replica is storing.
    let mut other = PgConnection::connect(&database_url).await.unwrap();
    let mut tx = other.begin().await.unwrap();
    sqlx::query("select pg_advisory_xact_lock($1)")
        .bind(scope.lock_id())
        .execute(&mut *tx)
        .await
        .unwrap();
    harness.post("k-2", &order()).await.expect(201);

    // A request that waited for the key would get 503 after its time limit.
    let response = harness.post("k-1", &order()).await;
    response.expect_problem(409, "idempotency_key_in_flight");
    assert_eq!(response.header("retry-after"), Some("1"));
    assert_eq!(harness.stored().await, orders_stored(1));

    tx.rollback().await.unwrap();
    let response = harness.post("k-1", &order()).await;
    assert!(!response.expect(201).is_replay());
    assert_eq!(harness.stored().await, orders_stored(2));
}

#[tokio::test]
async fn invalid_order_stores_nothing_and_frees_the_key() {
    let harness = Harness::start().await;
    let rejected = harness.post("k-1", &order_with("currency", "DOGE")).await;
    rejected.expect_problem(422, "invalid_order");
    assert_eq!(harness.stored().await, Stored::default());
    let corrected = harness.post("k-1", &order()).await;
    assert!(!corrected.expect(201).is_replay());
    assert_eq!(harness.stored().await, orders_stored(1));
}
