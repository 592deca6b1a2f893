//! R14: the merchant's own name for a purchase, which no new key and no lapse of time gets around.

use futures_util::future::join_all;
use serde_json::Value;
use uuid::Uuid;

use crate::service::{ACME, GLOBEX, Service, Stored, order_with, orders_stored};

fn cart() -> Value {
    order_with("reference", "cart-4711")
}

fn other_cart() -> Value {
    let mut cart = cart();
    cart["customer_id"] = "cust-89".into();
    cart
}

/// One order, and so many keys that know about it.
fn one_order(keys: i64) -> Stored {
    Stored {
        keys,
        ..orders_stored(1)
    }
}

#[tokio::test]
async fn the_same_content_under_a_new_key_answers_with_the_first_order() {
    let service = Service::start().await;
    let first = service.post("k-1", &cart()).await;
    first.expect(201);
    let second = service.post("k-2", &cart()).await;
    assert_eq!(second.expect(200).order_id(), first.order_id());
    assert_eq!(second.header("location"), first.header("location"));
    assert!(!second.is_replay());
    let again = service.post("k-2", &cart()).await;
    assert!(again.expect(200).is_replay());
    assert_eq!(again.body, second.body);
    assert_eq!(service.stored().await, one_order(2));
}

#[tokio::test]
async fn other_content_is_a_conflict_that_names_the_order_and_replays() {
    let service = Service::start().await;
    let first = service.post("k-1", &cart()).await;
    let refused = service.post("k-2", &other_cart()).await;
    let problem = refused.expect_problem(409, "order_exists");
    assert_eq!(problem["order_id"], first.order_id().to_string());
    assert_eq!(
        problem["order_url"],
        format!("/orders/{}", first.order_id())
    );
    let id_of_request = refused.header("x-correlation-id").unwrap();
    assert_eq!(problem["correlation_id"], id_of_request);
    assert!(refused.header("retry-after").is_none());

    let again = service.post("k-2", &other_cart()).await;
    assert!(again.expect(409).is_replay());
    assert_eq!(again.body, refused.body);
    assert_eq!(again.header("content-type"), refused.header("content-type"));
    // The key is taken by the refused request, as by any other.
    let reused = service.post("k-2", &cart()).await;
    reused.expect_problem(422, "idempotency_key_reused");
    assert_eq!(service.stored().await, one_order(2));
}

#[tokio::test]
async fn a_reference_outlives_every_key() {
    let service = Service::start().await;
    let first = service.post("k-1", &cart()).await;
    service.meddle("truncate idempotency_keys").await;
    let same_key = service.post("k-1", &cart()).await;
    assert_eq!(same_key.expect(200).order_id(), first.order_id());
    let new_key = service.post("k-9", &other_cart()).await;
    new_key.expect_problem(409, "order_exists");
    assert_eq!(service.stored().await, one_order(2));
}

#[tokio::test]
async fn a_double_click_with_many_keys_makes_one_order() {
    let service = Service::start_with(|config| config.intake_writers = 4).await;
    for round in 1..=10 {
        let cart = order_with("reference", format!("cart-{round}"));
        let post = async |click: usize| service.post(&format!("{round}-{click}"), &cart).await;
        let answers = join_all((0..10).map(post)).await;
        let created = answers.iter().filter(|answer| answer.status == 201);
        assert_eq!(created.count(), 1);
        for answer in &answers {
            assert!([200, 201].contains(&answer.status), "{}", answer.status);
            assert_eq!(answer.order_id(), answers[0].order_id());
        }
        let expected = Stored {
            keys: round * 10,
            ..orders_stored(round)
        };
        assert_eq!(service.stored().await, expected);
    }
}

#[tokio::test]
async fn of_two_different_carts_with_one_name_at_once_one_is_refused() {
    let service = Service::start_with(|config| config.intake_writers = 4).await;
    let (cart, other_cart) = (cart(), other_cart());
    let (one, two) = tokio::join!(service.post("k-1", &cart), service.post("k-2", &other_cart));
    let (made, refused) = if one.status == 201 {
        (one, two)
    } else {
        (two, one)
    };
    let problem = refused.expect_problem(409, "order_exists");
    assert_eq!(problem["order_id"], made.expect(201).order_id().to_string());
    assert_eq!(service.stored().await, one_order(2));
}

#[tokio::test]
async fn two_principals_may_use_the_same_reference() {
    let service = Service::start().await;
    let acme = service.post_as(ACME, "k-1", &cart()).await;
    let globex = service.post_as(GLOBEX, "k-1", &cart()).await;
    acme.expect(201);
    assert_ne!(globex.expect(201).order_id(), acme.order_id());
    assert_eq!(service.stored().await, orders_stored(2));
}

#[tokio::test]
async fn a_put_of_another_id_with_a_taken_reference_is_a_conflict_that_names_the_order() {
    let service = Service::start().await;
    let first = service.post("k-1", &cart()).await;
    let refused = service.put(Uuid::new_v4(), &cart()).await;
    let problem = refused.expect_problem(409, "order_exists");
    assert_eq!(problem["order_id"], first.order_id().to_string());
    assert_eq!(service.stored().await, one_order(1));
}

#[tokio::test]
async fn orders_without_a_reference_never_stand_in_each_others_way() {
    let service = Service::start().await;
    let mut explicit_null = cart();
    explicit_null["reference"] = Value::Null;
    for key in ["k-1", "k-2"] {
        service.post(key, &explicit_null).await.expect(201);
    }
    assert_eq!(service.stored().await, orders_stored(2));
}
