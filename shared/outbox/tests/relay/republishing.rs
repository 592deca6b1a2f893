//! Events are published again after the broker has lost its data.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use outbox::{StepOutcome, republish};
use reqwest::Method;
use serde_json::{Value, json};
use service_kit::Pressure;
use uuid::Uuid;

use crate::harness::{Harness, audit_row, event, eventually, numbers};

fn long_ago() -> DateTime<Utc> {
    Utc::now() - TimeDelta::days(365)
}

#[tokio::test]
async fn republished_events_keep_their_ids_and_order() {
    let harness = Harness::create().await;
    let orders: Vec<Uuid> = (0..5).map(|_| Uuid::new_v4()).collect();
    for number in 1..=4 {
        let events: Vec<_> = orders.iter().map(|id| event(*id, number)).collect();
        harness.write(&events).await;
    }
    let mut settings = harness.settings();
    settings.batch_rows_max = 7;
    let mut relay = harness.relay(settings);
    while relay.step().await.unwrap() != StepOutcome::Idle {}
    let first = harness.topic.read().await;
    assert_eq!(
        republish(&harness.pool, long_ago(), "test").await.unwrap(),
        20
    );
    // A repeat before the relay has sent anything finds nothing to do.
    assert_eq!(
        republish(&harness.pool, long_ago(), "test").await.unwrap(),
        0
    );
    assert!(relay.step().await.is_err(), "its session has ended");
    while relay.step().await.unwrap() != StepOutcome::Idle {}
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
async fn republished_event_has_not_waited() {
    let harness = Harness::create().await;
    harness.write(&[event(Uuid::new_v4(), 1)]).await;
    let mut relay = harness.relay(harness.settings());
    relay.step().await.unwrap();
    make_events_old(&harness).await;
    republish(&harness.pool, long_ago(), "test").await.unwrap();
    // This relay connects after the republication has ended.
    let pressure = Pressure::default();
    let mut relay = harness.relay(harness.settings()).watched(pressure.queue());
    assert_eq!(relay.step().await.unwrap(), StepOutcome::Published(1));
    assert!(pressure.waits().seconds < OLD_SECONDS / 2.0);
    // An event that was never published has waited.
    harness.write(&[event(Uuid::new_v4(), 2)]).await;
    make_events_old(&harness).await;
    assert_eq!(relay.step().await.unwrap(), StepOutcome::Published(1));
    assert!(pressure.waits().seconds > OLD_SECONDS / 2.0);
}

const OLD_SECONDS: f64 = 3_600.0;

async fn make_events_old(harness: &Harness) {
    sqlx::query("update outbox set created_at = now() - make_interval(secs => $1)")
        .bind(OLD_SECONDS)
        .execute(&harness.pool)
        .await
        .unwrap();
}

#[tokio::test]
async fn only_the_requested_window_is_republished() {
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
    assert_eq!(republish(&harness.pool, hour_ago, "test").await.unwrap(), 2);
    assert_eq!(harness.unpublished().await, 2);
}

#[tokio::test]
async fn operator_republishes_over_http() {
    let harness = Harness::create().await;
    harness.write(&[event(Uuid::new_v4(), 1)]).await;
    let (_shutdown, _task) = harness.run(harness.settings());
    harness.all_published().await;
    let url = harness.operator_url().await;
    let client = testkit::operator::client().unwrap();
    let post = async |body: Value| {
        let url = format!("{url}/admin/outbox/republish");
        let request = client.request(Method::POST, &url).json(&body);
        let response = request.send().await.unwrap();
        (
            response.status().as_u16(),
            response.json::<Value>().await.unwrap(),
        )
    };
    let (status, body) = post(json!({ "since": long_ago().to_rfc3339() })).await;
    assert_eq!((status, body), (200, json!({ "republished": 1 })));
    eventually("the event is sent again", async || {
        harness.ids().await.len() == 2
    })
    .await;
    let (status, problem) = post(json!({ "since": "yesterday" })).await;
    assert_eq!((status, &problem["code"]), (400, &"invalid_body".into()));
    let since = long_ago().to_rfc3339();
    let twice = format!(r#"{{"since":"{since}","since":"{since}"}}"#);
    let path = format!("{url}/admin/outbox/republish");
    let request = client.request(Method::POST, &path);
    let request = request.header("content-type", "application/json");
    let response = request.body(twice).send().await.unwrap();
    assert_eq!(response.status(), 400);
    let problem: Value = response.json().await.unwrap();
    assert_eq!(problem["code"], "malformed_json");
    assert_eq!(
        harness.audit().await,
        [audit_row("outbox.republish", "outbox")]
    );
}

#[tokio::test]
async fn republication_that_does_not_begin_is_not_audited() {
    let harness = Harness::create().await;
    sqlx::raw_sql("alter table outbox_republication add constraint broken check (false)")
        .execute(&harness.pool)
        .await
        .unwrap();
    let url = format!("{}/admin/outbox/republish", harness.operator_url().await);
    let request = testkit::operator::client().unwrap();
    let request = request.request(Method::POST, &url);
    let request = request.json(&json!({ "since": long_ago().to_rfc3339() }));
    assert_eq!(request.send().await.unwrap().status(), 500);
    assert!(harness.audit().await.is_empty());
}

#[tokio::test]
async fn running_relay_refills_a_recreated_topic() {
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
        republish(&harness.pool, long_ago(), "test").await.unwrap();
        harness.all_published().await;
        // Before the republication, the newest event went to the old topic or to the new one. After
        // it, the new topic has all events.
        let mut seen = numbers(&harness.topic.read().await, order);
        if seen.len() > newest as usize {
            assert_eq!(seen.remove(0), newest);
        }
        let expected: Vec<i32> = (1..=newest).collect();
        assert_eq!(seen, expected);
    }
}

/// The relay of the next test pauses once after its acknowledgements, until the test resumes it.
static ACKNOWLEDGED: Barrier = Barrier::new(2);
static RESUMED: Barrier = Barrier::new(2);
static HAS_PAUSED: AtomicBool = AtomicBool::new(false);

fn pause_once(point: &'static str) {
    if point == "relay.acknowledged" && !HAS_PAUSED.swap(true, Ordering::AcqRel) {
        ACKNOWLEDGED.wait();
        RESUMED.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledgements_of_a_lost_broker_cannot_mark_rows() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    harness.write(&[event(order, 1)]).await;
    let mut settings = harness.settings();
    settings.reached = pause_once;
    let mut relay = harness.relay(settings);
    let step = tokio::spawn(async move {
        let outcome = relay.step().await;
        (relay, outcome)
    });
    let waited = tokio::task::spawn_blocking(|| ACKNOWLEDGED.wait());
    waited.await.unwrap();
    // The rows are acknowledged but not marked, so republication has nothing to mark as unpublished.
    assert_eq!(
        republish(&harness.pool, long_ago(), "test").await.unwrap(),
        0
    );
    let resumed = tokio::task::spawn_blocking(|| RESUMED.wait());
    resumed.await.unwrap();
    let (mut relay, outcome) = step.await.unwrap();
    assert!(outcome.is_err(), "the relay marked rows of the lost broker");
    assert_eq!(harness.unpublished().await, 1);
    while relay.step().await.unwrap() != StepOutcome::Idle {}
    assert_eq!(numbers(&harness.topic.read().await, order), [1, 1]);
}
