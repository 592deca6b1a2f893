//! An operator redrives the parked messages of an order: each of its mails is sent, once.

use reqwest::Method;
use serde_json::Value;
use testkit::operator;
use uuid::Uuid;

use crate::consuming::consume;
use crate::harness::{Harness, eventually};
use crate::mail_types::refunded;
use crate::topic::Topic;

/// While it holds, no mail about the order can be logged.
const FAULT: &str = "alter table receipts add constraint fault check (recipient not like 'ann.%')";
const END_FAULT: &str = "alter table receipts drop constraint fault";

/// The lease outlasts the test: only the redrive can start a mail that it stored leased.
#[tokio::test]
async fn every_mail_of_a_redriven_order_is_sent_once() {
    let harness = Harness::create().await;
    let topic = Topic::create().await;
    let group = format!("receipt-{}", Uuid::new_v4());
    let running = consume(&harness, &topic, &group).await;
    topic.captured(None, Uuid::new_v4(), "cust-88").await;
    harness.sent(1).await;
    harness.execute(FAULT).await;
    let order = Uuid::new_v4();
    topic.captured(None, order, "ann.lee").await;
    topic.publish(&refunded(order, 1, "ann.lee")).await;
    eventually("both messages are parked", async || {
        let parked = "select count(*) from parked_messages";
        harness.count(parked).await == 2
    })
    .await;
    harness.execute(END_FAULT).await;

    let client = operator::client().unwrap();
    let parked = format!("http://127.0.0.1:{}/admin/parked", running.operator_port);
    let list = client.request(Method::GET, &parked).send().await.unwrap();
    let list: Value = list.json().await.unwrap();
    let redrive = format!("{parked}/{}/redrive", list["data"][0]["id"]);
    let redriven = client.request(Method::POST, &redrive).send().await.unwrap();
    let redriven: Value = redriven.json().await.unwrap();
    assert_eq!(redriven["handled"], 2, "{redriven}");
    harness.sent(3).await;
    running.stop().await;
    assert_eq!(harness.mails().len(), 3);
}
