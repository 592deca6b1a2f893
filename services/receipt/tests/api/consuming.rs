//! One receipt per captured payment, no matter how often the payment is published.

use uuid::Uuid;

use crate::application::{Running, start};
use crate::harness::{Harness, eventually};
use crate::topic::{PARTITIONS, Topic};

pub(crate) async fn consume(harness: &Harness, topic: &Topic, group: &str) -> Running {
    let flags = [
        ["--kafka-brokers", &topic.brokers],
        ["--kafka-topic", &topic.name],
        ["--kafka-group", group],
        ["--kafka-fetch-wait-max-ms", "50"],
    ];
    start(harness, flags.as_flattened()).await
}

#[tokio::test]
async fn payment_published_many_times_has_one_receipt() {
    let harness = Harness::create().await;
    let topic = Topic::create().await;
    let orders: Vec<Uuid> = (0..20).map(|_| Uuid::new_v4()).collect();
    let publish = async || {
        for order in &orders {
            topic.captured(None, *order, "cust-88").await;
        }
    };
    for _ in 0..3 {
        publish().await;
    }
    let group = format!("receipt-{}", Uuid::new_v4());
    let running = consume(&harness, &topic, &group).await;
    harness.sent(20).await;
    running.stop().await;

    // Publish again, for another process. One new order at the end of each partition shows when
    // everything was read.
    publish().await;
    for partition in 0..PARTITIONS {
        let last = Uuid::new_v4();
        topic.captured(Some(partition), last, "cust-88").await;
    }
    let running = consume(&harness, &topic, &group).await;
    harness.sent(20 + i64::from(PARTITIONS)).await;
    running.stop().await;
    assert_eq!(harness.mails().len(), 20 + PARTITIONS as usize);
}

#[tokio::test]
async fn new_consumer_group_sends_nothing_again() {
    let harness = Harness::create().await;
    let topic = Topic::create().await;
    for _ in 0..10 {
        topic.captured(None, Uuid::new_v4(), "cust-88").await;
    }
    let running = consume(&harness, &topic, &format!("receipt-{}", Uuid::new_v4())).await;
    harness.sent(10).await;
    running.stop().await;

    // The new group has no processed messages: only the log of mails prevents a second mail.
    let running = consume(&harness, &topic, &format!("receipt-{}", Uuid::new_v4())).await;
    eventually("the new group has read everything", async || {
        harness
            .count("select count(*) from processed_messages")
            .await
            == 20
    })
    .await;
    running.stop().await;
    assert_eq!(harness.count("select count(*) from receipts").await, 10);
    assert_eq!(harness.mails().len(), 10);
}

#[tokio::test]
async fn receipt_goes_to_the_customer_who_paid() {
    let harness = Harness::create().await;
    let topic = Topic::create().await;
    for customer in ["ann.lee", "", "a\r\nBcc: b@evil.example"] {
        topic.captured(None, Uuid::new_v4(), customer).await;
    }
    let running = consume(&harness, &topic, &format!("receipt-{}", Uuid::new_v4())).await;
    harness.sent(3).await;
    running.stop().await;
    let mails = harness.mails();
    let mut recipients: Vec<&str> = mails.iter().map(|mail| mail.recipient()).collect();
    recipients.sort_unstable();
    let default = "customer@customers.example";
    assert_eq!(recipients, ["ann.lee@customers.example", default, default]);
    assert!(mails.iter().all(|mail| mail.header("bcc").is_none()));
}
