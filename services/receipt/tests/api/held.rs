//! A mail about an old event waits for an operator.

use chrono::{TimeDelta, Utc};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use testkit::smtp_sink::Action;
use uuid::Uuid;

use crate::application::{Running, start};
use crate::consuming::consume;
use crate::harness::{Harness, LONG, eventually};
use crate::topic::{Topic, captured};

fn mails_url(running: &Running) -> String {
    format!("http://127.0.0.1:{}/admin/mails", running.operator_port)
}

async fn get(running: &Running, query: &str) -> Response {
    let url = format!("{}{query}", mails_url(running));
    let client = testkit::operator::client().unwrap();
    client.request(Method::GET, &url).send().await.unwrap()
}

pub(crate) async fn list(running: &Running, query: &str) -> Vec<Value> {
    let response = get(running, &format!("?{query}")).await;
    assert_eq!(response.status(), StatusCode::OK);
    let page: Value = response.json().await.unwrap();
    page["data"].as_array().unwrap().clone()
}

pub(crate) async fn post(running: &Running, path: &str, body: Value) -> (StatusCode, Value) {
    let url = format!("{}/{path}", mails_url(running));
    let client = testkit::operator::client().unwrap();
    let request = client.request(Method::POST, &url).json(&body);
    let response = request.send().await.unwrap();
    (response.status(), response.json().await.unwrap())
}

async fn release(running: &Running, body: Value) -> u64 {
    let (status, released) = post(running, "release", body).await;
    assert_eq!(status, StatusCode::OK, "{released}");
    released["released"].as_u64().unwrap()
}

#[tokio::test]
async fn mail_about_an_old_event_waits_for_its_release() {
    let harness = Harness::create().await;
    let topic = Topic::create().await;
    let old: Vec<Uuid> = (0..3).map(|_| Uuid::new_v4()).collect();
    for order in &old {
        let mut envelope = captured(*order, "ann.lee");
        envelope.time = Utc::now() - TimeDelta::days(8);
        topic.publish_to(None, &envelope).await;
    }
    let recent = Uuid::new_v4();
    topic.captured(None, recent, "ann.lee").await;
    let group = format!("receipt-{}", Uuid::new_v4());
    let running = consume(&harness, &topic, &group).await;
    eventually("every message is processed", async || {
        harness
            .count("select count(*) from processed_messages")
            .await
            == 4
    })
    .await;
    harness.sent(1).await;
    assert_eq!(harness.row(recent).await.status, "sent");
    for order in &old {
        assert_eq!(harness.row(*order).await.state(), ("held", 0, 0));
    }
    assert_eq!(list(&running, "status=held").await.len(), 3);
    let of_order = list(&running, &format!("order_id={}", old[0])).await;
    assert_eq!(of_order[0]["status"], "held");

    // An empty body must not send everything.
    for body in [json!({}), json!({"all": true, "order_id": old[0]})] {
        let (status, _) = post(&running, "release", body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
    }
    assert_eq!(release(&running, json!({"order_id": old[0]})).await, 1);
    assert_eq!(release(&running, json!({"order_id": old[0]})).await, 0);
    harness.sent(2).await;
    assert_eq!(list(&running, "status=held").await.len(), 2);
    assert_eq!(release(&running, json!({"all": true})).await, 2);
    assert_eq!(release(&running, json!({"all": true})).await, 0);
    harness.sent(4).await;
    running.stop().await;
    assert_eq!(harness.mails().len(), 4);
}

/// The mail server was away for longer than the limit.
#[tokio::test]
async fn mail_that_grows_too_old_while_waiting_is_held() {
    let harness = Harness::create().await;
    harness.misbehave(Action::LoseReply, 1);
    let order = harness.log_new().await;
    harness.try_once().await;
    harness
        .execute("update receipts set event_time = now() - interval '8 days'")
        .await;
    harness.pass_time().await;
    assert_eq!(harness.stepper(LONG).lease().await, 0);
    assert_eq!(harness.row(order).await.state(), ("held", 1, 1));

    let running = start(&harness, &[]).await;
    assert_eq!(release(&running, json!({"all": true})).await, 1);
    harness.sent(1).await;
    running.stop().await;
    assert_eq!(harness.row(order).await.state(), ("sent", 2, 2));
}

#[tokio::test]
async fn limit_is_a_setting() {
    let harness = Harness::create().await;
    let order = harness.log_new().await;
    harness
        .execute("update receipts set event_time = now() - interval '1 minute'")
        .await;
    let running = start(&harness, &["--mail-event-age-max-seconds", "30"]).await;
    eventually("the mail is held", async || {
        harness.row(order).await.status == "held"
    })
    .await;
    running.stop().await;
    assert_eq!(harness.mails().len(), 0);
}

/// A limit beyond the range of the store's clock.
#[tokio::test]
async fn limit_without_end_holds_nothing() {
    let harness = Harness::create().await;
    harness.log_new().await;
    harness
        .execute("update receipts set event_time = now() - interval '20 years'")
        .await;
    for limit in ["1000000000000", "18446744073709551615"] {
        let running = start(&harness, &["--mail-event-age-max-seconds", limit]).await;
        harness.sent(1).await;
        running.stop().await;
        harness
            .execute("update receipts set status = 'pending', sent_at = null, tries_in_doubt = 0")
            .await;
    }
}

#[tokio::test]
async fn list_is_paged_and_rejects_other_filters() {
    let harness = Harness::create().await;
    for _ in 0..5 {
        harness.log_new().await;
    }
    harness.execute("update receipts set status = 'held'").await;
    let running = start(&harness, &[]).await;
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = get(&running, &format!("?status=held&limit=2{after}")).await;
        let page: Value = page.json().await.unwrap();
        let ids = page["data"].as_array().unwrap().iter();
        seen.extend(ids.map(|mail| mail["event_id"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), 5);
    assert!(seen.is_sorted() && seen.windows(2).all(|pair| pair[0] != pair[1]));
    for query in ["", "?status=sent", "?status=held&after=x", "?colour=red"] {
        let response = get(&running, query).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{query}");
    }
    running.stop().await;
}

/// A restored database has mails as pending that were sent since the backup, and reads the events of others
/// again.
#[tokio::test]
async fn mails_from_before_a_restore_wait_for_an_operator() {
    let harness = Harness::create().await;
    let topic = Topic::create().await;
    let (pending, released) = (harness.log_new().await, harness.log_new().await);
    let release_it = "update receipts set released_at = now() where order_id = $1";
    let done = sqlx::query(release_it).bind(released);
    done.execute(&harness.pool).await.unwrap();
    let again = Uuid::new_v4();
    topic.captured(None, again, "ann.lee").await;
    let restored_at = Utc::now().to_rfc3339();
    let group = format!("receipt-{}", Uuid::new_v4());
    let flags = [
        ["--mail-hold-events-before", &*restored_at],
        ["--kafka-brokers", &topic.brokers],
        ["--kafka-topic", &topic.name],
        ["--kafka-group", &group],
        ["--kafka-fetch-wait-max-ms", "50"],
    ];
    let running = start(&harness, flags.as_flattened()).await;
    let fresh = Uuid::new_v4();
    topic.captured(None, fresh, "ann.lee").await;
    harness.sent(1).await;
    assert_eq!(harness.row(fresh).await.status, "sent");
    for order in [pending, released, again] {
        assert_eq!(harness.row(order).await.state(), ("held", 0, 0));
    }
    // An operator decides about each: it is sent, or counts as sent.
    assert_eq!(release(&running, json!({"order_id": again})).await, 1);
    harness.sent(2).await;
    for settled in [2, 0] {
        let (status, body) = post(&running, "settle", json!({"all": true})).await;
        assert_eq!(
            (status, body),
            (StatusCode::OK, json!({ "settled": settled }))
        );
    }
    for body in [json!({}), json!({"all": true, "order_id": again})] {
        let (status, _) = post(&running, "settle", body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
    }
    running.stop().await;
    assert_eq!(harness.row(pending).await.state(), ("sent", 0, 0));
    assert_eq!(harness.mails().len(), 2);
    let audited =
        "select count(*) from audit_log where action in ('mails.release', 'mails.settle')";
    assert_eq!(harness.count(audited).await, 2);
}
