//! R4 to R6: the first answer again, one answer for many at once, and what is no answer.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use idempotency::{Key, Scope};
use sqlx::{Connection as _, PgConnection};

use crate::eventually;
use crate::service::{Service, Stored, migrated, order, order_with, orders_stored};

const DUPLICATES: usize = 50;
/// Far below any time-out of the service: an answer that took longer was waiting for something.
const AT_ONCE: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_repeated_request_gets_the_first_answer_byte_by_byte() {
    let service = Service::start().await;
    let first = service.post("k-1", &order()).await;
    first.expect(201);
    assert!(!first.headers.contains_key("idempotent-replayed"));
    let location = format!("/orders/{}", first.order_id());
    assert_eq!(first.header("location"), Some(location.as_str()));
    // Nothing is computed anew: the order has moved on, its first answer has not.
    service
        .meddle("update orders set status = 'paid', version = 2")
        .await;
    for _ in 0..3 {
        let again = service.post("k-1", &order()).await;
        assert_eq!(again.status, first.status);
        assert_eq!(again.body, first.body);
        for name in ["content-type", "content-length", "location"] {
            assert_eq!(again.header(name), first.header(name), "{name}");
        }
        assert!(again.is_replay());
    }
    assert_eq!(service.stored().await, orders_stored(1));
}

#[tokio::test]
async fn a_replay_survives_a_restart_of_the_service() {
    let database_url = migrated().await;
    let before = Service::start_on(&database_url, |_| ()).await;
    let first = before.post("k-1", &order()).await;
    drop(before);
    let after = Service::start_on(&database_url, |_| ()).await;
    let again = after.post("k-1", &order()).await;
    assert!(again.expect(201).is_replay());
    assert_eq!(again.body, first.body);
}

#[tokio::test]
async fn fifty_duplicates_at_once_make_one_order_and_one_event() {
    let service = Service::start().await;
    let order = order();
    let answers = join_all((0..DUPLICATES).map(|_| service.post("k-1", &order))).await;
    assert_eq!(service.stored().await, orders_stored(1));
    let (made, in_flight): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.status == 201);
    let first = made.first().expect("one of them was first");
    let originals = made.iter().filter(|answer| !answer.is_replay()).count();
    assert_eq!(originals, 1);
    assert!(made.iter().all(|answer| answer.body == first.body));
    for answer in in_flight {
        answer.expect_problem(409, "idempotency_key_in_flight");
        assert_eq!(answer.header("retry-after"), Some("1"));
        // The same key, sent again as it was told, finds the answer.
        let again = service.post("k-1", &order).await;
        assert!(again.is_replay());
        assert_eq!(again.body, first.body);
    }
    assert_eq!(service.stored().await, orders_stored(1));
}

#[tokio::test]
async fn duplicates_spread_over_many_keys_and_writers_make_one_order_per_key() {
    let service = Service::start_with(|config| config.intake_writers = 4).await;
    let order = order();
    let post = async |number: usize| {
        let key = format!("k-{}", number % 10);
        let placed = async || {
            let answer = service.post(&key, &order).await;
            (answer.status == 201).then_some(answer)
        };
        eventually("the key has its answer", placed).await
    };
    let answers = join_all((0..100).map(post)).await;
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer.body, answers[number % 10].body);
    }
    assert_eq!(service.stored().await, orders_stored(10));
}

#[tokio::test]
async fn a_key_in_flight_is_answered_at_once() {
    let database_url = migrated().await;
    let service = Service::start_on(&database_url, |_| ()).await;
    let key = Key::parse("k-1").unwrap();
    let scope = Scope {
        principal_id: "acme",
        route: "POST /orders",
        key: &key,
    };
    // Stands for a request that is just being stored, by any instance of the service.
    let mut other = PgConnection::connect(&database_url).await.unwrap();
    let mut tx = other.begin().await.unwrap();
    sqlx::query("select pg_advisory_xact_lock($1)")
        .bind(scope.lock_id())
        .execute(&mut *tx)
        .await
        .unwrap();
    // Who calls is known from here on; only the key is timed.
    service.post("k-2", &order()).await.expect(201);

    let started = Instant::now();
    let answer = service.post("k-1", &order()).await;
    assert!(started.elapsed() < AT_ONCE, "{:?}", started.elapsed());
    answer.expect_problem(409, "idempotency_key_in_flight");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(service.stored().await, orders_stored(1));

    tx.rollback().await.unwrap();
    let answer = service.post("k-1", &order()).await;
    assert!(!answer.expect(201).is_replay());
    assert_eq!(service.stored().await, orders_stored(2));
}

#[tokio::test]
async fn a_refused_order_stores_nothing_and_its_key_may_be_used_again() {
    let service = Service::start().await;
    let refused = service.post("k-1", &order_with("currency", "DOGE")).await;
    refused.expect_problem(422, "invalid_order");
    assert_eq!(service.stored().await, Stored::default());
    let corrected = service.post("k-1", &order()).await;
    assert!(!corrected.expect(201).is_replay());
    assert_eq!(service.stored().await, orders_stored(1));
}
