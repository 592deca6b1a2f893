use uuid::Uuid;

use crate::application::{Running, start};
use crate::harness::{Harness, eventually};
use crate::topic::{PARTITIONS, Topic};

async fn consume(harness: &Harness, topic: &Topic, group: &str) -> Running {
    let flags = [
        ["--kafka-brokers", &topic.brokers],
        ["--kafka-topic", &topic.name],
        ["--kafka-group", group],
        ["--kafka-fetch-wait-max-ms", "50"],
    ];
    start(harness, flags.as_flattened()).await
}

#[tokio::test]
async fn a_payment_is_receipted_once_however_often_it_is_announced() {
    let harness = Harness::create().await;
    let topic = Topic::create().await;
    let orders: Vec<Uuid> = (0..20).map(|_| Uuid::new_v4()).collect();
    let announce = async || {
        for order in &orders {
            topic.captured(None, *order, "cust-88").await;
        }
    };
    for _ in 0..3 {
        announce().await;
    }
    let group = format!("receipt-{}", Uuid::new_v4());
    let running = consume(&harness, &topic, &group).await;
    harness.sent(20).await;
    running.stop().await;

    // Once more, to another process; then one new order behind all that in each partition, to know
    // when everything was read.
    announce().await;
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
async fn a_new_group_that_reads_everything_again_sends_nothing_again() {
    let harness = Harness::create().await;
    let topic = Topic::create().await;
    for _ in 0..10 {
        topic.captured(None, Uuid::new_v4(), "cust-88").await;
    }
    let running = consume(&harness, &topic, &format!("receipt-{}", Uuid::new_v4())).await;
    harness.sent(10).await;
    running.stop().await;

    // Its ledger is empty: only the log itself knows.
    let running = consume(&harness, &topic, &format!("receipt-{}", Uuid::new_v4())).await;
    eventually("the other group has read everything", async || {
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
async fn the_receipt_goes_to_the_customer_who_paid() {
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
    let nobody = "customer@customers.example";
    assert_eq!(recipients, ["ann.lee@customers.example", nobody, nobody]);
    assert!(mails.iter().all(|mail| mail.header("bcc").is_none()));
}
