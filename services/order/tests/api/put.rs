//! `PUT` of an id that the client chose: idempotent without a key and without a time limit.

use futures_util::future::join_all;
use reqwest::Method;
use uuid::Uuid;

use crate::harness::{ACME, GLOBEX, Harness, Stored, order, order_with, orders_stored, send};

/// The rows of `count` orders with one line, placed without keys.
fn put_stored(count: i64) -> Stored {
    Stored {
        keys: 0,
        ..orders_stored(count)
    }
}

#[tokio::test]
async fn first_put_creates_and_repeats_return_the_order() {
    let harness = Harness::start().await;
    let id = Uuid::new_v4();
    let first = harness.put(id, &order()).await;
    assert_eq!(first.expect(201).order_id(), id);
    let location = format!("/orders/{id}");
    assert_eq!(first.header("location"), Some(location.as_str()));
    for _ in 0..3 {
        let again = harness.put(id, &order()).await;
        assert_eq!(again.expect(200).body, first.body);
        assert_eq!(again.header("location"), Some(location.as_str()));
    }
    assert_eq!(harness.stored().await, put_stored(1));
}

#[tokio::test]
async fn differently_formatted_put_is_the_same_order() {
    let harness = Harness::start().await;
    let id = Uuid::new_v4();
    let first = harness.put(id, &order()).await;
    let respelled = r#"{"payment_method":"pm_card_ok","items":[{"quantity":2,
        "unit_price":2500,"sku":"SKU-99"}],"currency":"\u0055SD","customer_id":"cust-88"}"#;
    let path = format!("/orders/{}", id.simple().to_string().to_uppercase());
    let request = harness.request(Method::PUT, &path).body(respelled);
    let again = send(request.header("content-type", "application/json")).await;
    assert_eq!(again.expect(200).body, first.body);
    assert_eq!(harness.stored().await, put_stored(1));
}

#[tokio::test]
async fn other_content_under_a_known_id_is_a_named_conflict() {
    let harness = Harness::start().await;
    let id = Uuid::new_v4();
    harness.put(id, &order()).await.expect(201);
    let other = harness.put(id, &order_with("customer_id", "c")).await;
    let problem = other.expect_problem(409, "order_exists");
    assert_eq!(problem["order_id"], id.to_string());
    assert_eq!(problem["order_url"], format!("/orders/{id}"));
    assert_eq!(harness.stored().await, put_stored(1));
}

#[tokio::test]
async fn id_of_another_principal_is_an_anonymous_conflict() {
    let harness = Harness::start().await;
    let id = Uuid::new_v4();
    harness.put_as(GLOBEX, id, &order()).await.expect(201);
    let own = order_with("customer_id", "of-acme");
    for body in [order(), own] {
        let rejected = harness.put_as(ACME, id, &body).await;
        let problem = rejected.expect_problem(409, "order_exists");
        assert!(problem.get("order_id").is_none(), "{problem}");
        assert!(problem.get("order_url").is_none(), "{problem}");
        assert!(!problem.to_string().contains("globex"), "{problem}");
    }
    harness.get(&format!("/orders/{id}")).await.expect(404);
    assert_eq!(harness.stored().await, put_stored(1));
}

#[tokio::test]
async fn one_of_two_different_concurrent_puts_conflicts() {
    let harness = Harness::start_with(|config| config.intake_writers = 4).await;
    let (one, two) = (order(), order_with("customer_id", "cust-89"));
    for round in 1..=20 {
        let id = Uuid::new_v4();
        let (one, two) = tokio::join!(harness.put(id, &one), harness.put(id, &two));
        let mut statuses = [one.status, two.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409]);
        assert_eq!(harness.stored().await, put_stored(round));
    }
}

#[tokio::test]
async fn equal_concurrent_puts_create_one_order() {
    let harness = Harness::start().await;
    let (id, order) = (Uuid::new_v4(), order());
    let responses = join_all((0..30).map(|_| harness.put(id, &order))).await;
    let created = responses.iter().filter(|response| response.status == 201);
    assert_eq!(created.count(), 1);
    assert!(
        responses
            .iter()
            .all(|response| response.status == 201 || response.status == 200)
    );
    assert!(
        responses
            .iter()
            .all(|response| response.body == responses[0].body)
    );
    assert_eq!(harness.stored().await, put_stored(1));
}

#[tokio::test]
async fn post_does_not_touch_an_order_that_was_put() {
    let harness = Harness::start().await;
    let put = harness.put(Uuid::new_v4(), &order()).await;
    let posted = harness.post("k-1", &order()).await;
    assert_ne!(posted.expect(201).order_id(), put.order_id());
    assert_eq!(harness.stored().await.orders, 2);
}
