//! Refunds have all that charges have: their key, their lease, their unknown outcomes.

use serde_json::json;
use uuid::Uuid;
use wiremock::matchers::{method, path, query_param};
use wiremock::{Mock, Request, ResponseTemplate};

use crate::provider::{asked, captures, first_refunds_say, refunds};
use crate::refusals::refuse;
use crate::world::{LONG, World};

#[derive(Debug, PartialEq, sqlx::FromRow)]
struct Refund {
    status: String,
    tries: i32,
    key: String,
    last_error: Option<String>,
    refund_id: Option<String>,
}

async fn refund(world: &World) -> Refund {
    sqlx::query_as("select status, tries, key, last_error, refund_id from refunds")
        .fetch_one(&world.pool)
        .await
        .unwrap()
}

/// An order that was captured and then refused.
async fn refused(world: &World) -> Uuid {
    captures(&world.psp).await;
    let order = world.open_new().await;
    step(world).await;
    refuse(world, order, 1).await;
    order
}

async fn step(world: &World) -> usize {
    world.pass_time().await;
    let answers = world.stepper(LONG).call().await;
    world.record(&answers).await.unwrap()
}

#[tokio::test]
async fn a_refund_without_an_answer_is_asked_for_again_under_the_same_key() {
    let world = World::create().await;
    for status in [500, 409, 429, 404, 422] {
        first_refunds_say(&world.psp, 1, ResponseTemplate::new(status)).await;
    }
    refunds(&world.psp).await;
    let order = refused(&world).await;
    for (tries, status) in (1..).zip([500, 409, 429, 404, 422]) {
        assert_eq!(step(&world).await, 0);
        let refund = refund(&world).await;
        assert_eq!((&*refund.status, refund.tries), ("unknown", tries));
        assert_eq!(refund.last_error, Some(format!("status {status}")));
    }
    assert_eq!(step(&world).await, 1);
    let settled = refund(&world).await;
    assert_eq!(settled.status, "refunded");
    assert_eq!(settled.refund_id, Some(format!("re_ch_{order}")));
    let requests = world.psp.received_requests().await.unwrap();
    let key = |request: &Request| {
        request.headers["idempotency-key"]
            .to_str()
            .unwrap()
            .to_owned()
    };
    let refunds = requests.iter().filter(|it| it.url.path() == "/v1/refunds");
    let keys: Vec<String> = refunds.map(key).collect();
    assert_eq!(keys, vec![format!("refund:{order}:1"); 6]);
}

#[tokio::test]
async fn a_zombie_s_refund_is_refused_by_its_lease() {
    let world = World::create().await;
    refunds(&world.psp).await;
    let order = refused(&world).await;
    let zombie = world.stepper(LONG).call().await;
    world.pass_time().await;
    let successor = world.stepper(LONG).call().await;
    assert_eq!(world.record(&zombie).await.unwrap(), 0);
    assert_eq!(world.record(&successor).await.unwrap(), 1);
    assert_eq!(world.record(&zombie).await.unwrap(), 0);
    let events = world.events(order).await;
    let refunded = events.iter().filter(|(kind, _)| kind == "payment.refunded");
    assert_eq!(refunded.count(), 1);
}

#[tokio::test]
async fn past_the_provider_s_window_a_refund_is_looked_up_and_not_sent() {
    let world = World::create().await;
    let order = refused(&world).await;
    assert_eq!(step(&world).await, 0, "nothing is mounted");
    world
        .execute("update refunds set first_called_at = now() - interval '1 day'")
        .await;
    let key = format!("refund:{order}:1");
    let found = json!({ "data": [
        { "id": "re_other", "status": "refunded", "idempotency_key": "other" },
        { "id": "re_found", "status": "refunded", "idempotency_key": key },
    ] });
    Mock::given(method("GET"))
        .and(path("/v1/refunds"))
        .and(query_param("key", format!("refund:{order}:1")))
        .respond_with(ResponseTemplate::new(200).set_body_json(found))
        .mount(&world.psp)
        .await;
    assert_eq!(step(&world).await, 1);
    assert_eq!(refund(&world).await.refund_id.as_deref(), Some("re_found"));
    assert_eq!(asked(&world.psp, "POST", "/v1/refunds").await.len(), 1);
}

#[tokio::test]
async fn a_refund_and_its_event_are_one_commit() {
    let world = World::create().await;
    refunds(&world.psp).await;
    let order = refused(&world).await;
    world.execute("alter table outbox rename to broken").await;
    world.pass_time().await;
    let answers = world.stepper(LONG).call().await;
    world.record(&answers).await.unwrap_err();
    assert_eq!(refund(&world).await.status, "pending");
    world.execute("alter table broken rename to outbox").await;
    assert_eq!(step(&world).await, 1);
    assert_eq!(refund(&world).await.status, "refunded");
    assert_eq!(world.events(order).await.len(), 2);
}
