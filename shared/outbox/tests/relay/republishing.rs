use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use outbox::{Outcome, republish, routes};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use uuid::Uuid;

use crate::harness::{Harness, event, eventually, numbers};

fn long_ago() -> DateTime<Utc> {
    Utc::now() - TimeDelta::days(365)
}

#[tokio::test]
async fn what_was_published_is_sent_again_with_the_same_ids_and_in_order() {
    let harness = Harness::create().await;
    let orders: Vec<Uuid> = (0..5).map(|_| Uuid::new_v4()).collect();
    for number in 1..=4 {
        let events: Vec<_> = orders.iter().map(|id| event(*id, number)).collect();
        harness.write(&events).await;
    }
    let mut settings = harness.settings();
    settings.batch_max = 7;
    let mut relay = harness.relay(settings);
    while relay.try_publish_batch().await.unwrap() != Outcome::Idle {}
    let first = harness.topic.read().await;
    assert_eq!(republish(&harness.pool, long_ago()).await.unwrap(), 20);
    // A repeat before anything was sent finds nothing to do.
    assert_eq!(republish(&harness.pool, long_ago()).await.unwrap(), 0);
    assert!(
        relay.try_publish_batch().await.is_err(),
        "its session ended"
    );
    while relay.try_publish_batch().await.unwrap() != Outcome::Idle {}
    let messages = harness.topic.read().await;
    for order in orders {
        assert_eq!(numbers(&messages, order), [1, 2, 3, 4, 1, 2, 3, 4]);
    }
    let ids = |messages: &[testkit::test_topic::Received]| {
        let mut ids: Vec<String> = messages.iter().map(|it| it.id().to_owned()).collect();
        ids.sort();
        ids
    };
    let mut twice = [ids(&first), ids(&first)].concat();
    twice.sort();
    assert_eq!(ids(&messages), twice);
}

#[tokio::test]
async fn only_the_window_that_was_asked_for_is_sent_again() {
    let harness = Harness::create().await;
    for (number, age) in [(1, "2 hours"), (2, "30 minutes"), (3, "0")] {
        harness.write(&[event(Uuid::new_v4(), number)]).await;
        sqlx::query(
            "update outbox set created_at = now() - $1::interval, published_at = now()
             where id = (select max(id) from outbox)",
        )
        .bind(age)
        .execute(&harness.pool)
        .await
        .unwrap();
    }
    let hour_ago = Utc::now() - TimeDelta::hours(1);
    assert_eq!(republish(&harness.pool, hour_ago).await.unwrap(), 2);
    assert_eq!(harness.unpublished().await, 2);
}

#[tokio::test]
async fn an_operator_can_ask_for_it_over_http() {
    let harness = Harness::create().await;
    harness.write(&[event(Uuid::new_v4(), 1)]).await;
    let (_shutdown, _task) = harness.run(harness.settings());
    harness.all_published().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let table = routes(harness.pool.clone(), harness.wake.clone());
    tokio::spawn(async move { axum::serve(listener, table).await });
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let ask = async |body: Value| {
        let url = format!("{url}/admin/outbox/republish");
        let response = client.post(url).json(&body).send().await.unwrap();
        (
            response.status().as_u16(),
            response.json::<Value>().await.unwrap(),
        )
    };
    let (status, answer) = ask(json!({ "since": long_ago().to_rfc3339() })).await;
    assert_eq!((status, answer), (200, json!({ "republished": 1 })));
    eventually("it is sent again", async || harness.ids().await.len() == 2).await;
    let (status, problem) = ask(json!({ "since": "yesterday" })).await;
    assert_eq!((status, &problem["code"]), (400, &"invalid_body".into()));
}

#[tokio::test]
async fn a_topic_that_was_lost_and_made_anew_is_filled_again_by_the_same_relay() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    harness.write(&[event(order, 1), event(order, 2)]).await;
    let (_shutdown, _task) = harness.run(harness.settings());
    harness.all_published().await;
    for round in 1..=3 {
        harness.topic.recreate().await;
        let newest = 2 + round;
        harness.write(&[event(order, newest)]).await;
        harness.wake.wake();
        harness.all_published().await;
        republish(&harness.pool, long_ago()).await.unwrap();
        harness.all_published().await;
        // The newest was perhaps sent to the old topic, and is in the new one for certain by now.
        let mut seen = numbers(&harness.topic.read().await, order);
        if seen.len() > newest as usize {
            assert_eq!(seen.remove(0), newest);
        }
        let expected: Vec<i32> = (1..=newest).collect();
        assert_eq!(seen, expected);
    }
}

/// Where the relay of the next test stands still, once, and where it is let go.
static ACKNOWLEDGED: Barrier = Barrier::new(2);
static LET_GO: Barrier = Barrier::new(2);
static STOOD_STILL: AtomicBool = AtomicBool::new(false);

fn stand_still(point: &'static str) {
    if point == "relay.acknowledged" && !STOOD_STILL.swap(true, Ordering::AcqRel) {
        ACKNOWLEDGED.wait();
        LET_GO.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_with_acknowledgements_of_the_broker_that_is_gone_cannot_mark_its_rows() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    harness.write(&[event(order, 1)]).await;
    let mut settings = harness.settings();
    settings.reached = stand_still;
    let mut relay = harness.relay(settings);
    let step = tokio::spawn(async move {
        let outcome = relay.try_publish_batch().await;
        (relay, outcome)
    });
    let waited = tokio::task::spawn_blocking(|| ACKNOWLEDGED.wait());
    waited.await.unwrap();
    // Acknowledged and not marked: republication finds nothing to unmark.
    assert_eq!(republish(&harness.pool, long_ago()).await.unwrap(), 0);
    let let_go = tokio::task::spawn_blocking(|| LET_GO.wait());
    let_go.await.unwrap();
    let (mut relay, outcome) = step.await.unwrap();
    assert!(outcome.is_err(), "it marked rows of the lost broker");
    assert_eq!(harness.unpublished().await, 1);
    while relay.try_publish_batch().await.unwrap() != Outcome::Idle {}
    assert_eq!(numbers(&harness.topic.read().await, order), [1, 1]);
}
