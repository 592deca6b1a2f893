//! R10: `PUT` of an id that the client chose, idempotent for ever and without a key.

use futures_util::future::join_all;
use reqwest::Method;
use uuid::Uuid;

use crate::service::{ACME, GLOBEX, Service, Stored, order, order_with, orders_stored, send};

/// What `count` orders of one line leave behind, placed without keys.
fn put_stored(count: i64) -> Stored {
    Stored {
        keys: 0,
        ..orders_stored(count)
    }
}

#[tokio::test]
async fn the_first_put_creates_and_every_other_finds() {
    let service = Service::start().await;
    let id = Uuid::new_v4();
    let first = service.put(id, &order()).await;
    assert_eq!(first.expect(201).order_id(), id);
    let location = format!("/orders/{id}");
    assert_eq!(first.header("location"), Some(location.as_str()));
    for _ in 0..3 {
        let again = service.put(id, &order()).await;
        assert_eq!(again.expect(200).body, first.body);
        assert_eq!(again.header("location"), Some(location.as_str()));
    }
    assert_eq!(service.stored().await, put_stored(1));
}

#[tokio::test]
async fn a_put_spelled_differently_is_the_same_order() {
    let service = Service::start().await;
    let id = Uuid::new_v4();
    let first = service.put(id, &order()).await;
    let respelled = r#"{"payment_method":"pm_card_ok","items":[{"quantity":2,
        "unit_price":2500,"sku":"SKU-99"}],"currency":"\u0055SD","customer_id":"cust-88"}"#;
    let path = format!("/orders/{}", id.simple().to_string().to_uppercase());
    let request = service.request(Method::PUT, &path).body(respelled);
    let again = send(request.header("content-type", "application/json")).await;
    assert_eq!(again.expect(200).body, first.body);
    assert_eq!(service.stored().await, put_stored(1));
}

#[tokio::test]
async fn other_content_under_a_known_id_is_a_conflict_that_names_the_order() {
    let service = Service::start().await;
    let id = Uuid::new_v4();
    service.put(id, &order()).await.expect(201);
    let other = service.put(id, &order_with("customer_id", "c")).await;
    let problem = other.expect_problem(409, "order_exists");
    assert_eq!(problem["order_id"], id.to_string());
    assert_eq!(problem["order_url"], format!("/orders/{id}"));
    assert_eq!(service.stored().await, put_stored(1));
}

#[tokio::test]
async fn an_id_of_somebody_else_is_a_conflict_that_says_nothing_about_them() {
    let service = Service::start().await;
    let id = Uuid::new_v4();
    service.put_as(GLOBEX, id, &order()).await.expect(201);
    let own = order_with("customer_id", "of-acme");
    for body in [order(), own] {
        let refused = service.put_as(ACME, id, &body).await;
        let problem = refused.expect_problem(409, "order_exists");
        assert!(problem.get("order_id").is_none(), "{problem}");
        assert!(problem.get("order_url").is_none(), "{problem}");
        assert!(!problem.to_string().contains("globex"), "{problem}");
    }
    service.get(&format!("/orders/{id}")).await.expect(404);
    assert_eq!(service.stored().await, put_stored(1));
}

#[tokio::test]
async fn of_two_different_puts_at_once_one_creates_and_one_conflicts() {
    let service = Service::start_with(|config| config.intake_writers = 4).await;
    let (one, two) = (order(), order_with("customer_id", "cust-89"));
    for round in 1..=20 {
        let id = Uuid::new_v4();
        let (one, two) = tokio::join!(service.put(id, &one), service.put(id, &two));
        let mut statuses = [one.status, two.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409]);
        assert_eq!(service.stored().await, put_stored(round));
    }
}

#[tokio::test]
async fn many_equal_puts_at_once_make_one_order() {
    let service = Service::start().await;
    let (id, order) = (Uuid::new_v4(), order());
    let answers = join_all((0..30).map(|_| service.put(id, &order))).await;
    let created = answers.iter().filter(|answer| answer.status == 201);
    assert_eq!(created.count(), 1);
    assert!(
        answers
            .iter()
            .all(|answer| answer.status == 201 || answer.status == 200)
    );
    assert!(answers.iter().all(|answer| answer.body == answers[0].body));
    assert_eq!(service.stored().await, put_stored(1));
}

#[tokio::test]
async fn a_post_does_not_touch_an_order_that_was_put() {
    let service = Service::start().await;
    let put = service.put(Uuid::new_v4(), &order()).await;
    let posted = service.post("k-1", &order()).await;
    assert_ne!(posted.expect(201).order_id(), put.order_id());
    assert_eq!(service.stored().await.orders, 2);
}
