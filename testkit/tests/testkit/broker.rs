use std::collections::BTreeSet;

use endpoints::topic::Topic;
use rdkafka::consumer::{CommitMode, Consumer, StreamConsumer};
use rdkafka::message::Message;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, producer::Producer};
use testkit::binaries::Binaries;
use testkit::broker::{Broker, Kafka};
use testkit::scratch::Scratch;
use testkit::supervisor::Supervisor;

use crate::WAIT_MAX;

const PARTITIONS: i32 = 6;
const MESSAGES: usize = 60;

#[tokio::test]
async fn embedded_broker_serves_producers_and_groups() {
    round_trip(Kafka::Embedded).await;
}

/// Needs KAFKA_BROKERS, which `lab infra --kafka apache` sets. Without it, nothing is tested.
#[tokio::test]
async fn existing_broker_serves_producers_and_groups() {
    match std::env::var("KAFKA_BROKERS") {
        Ok(brokers) => round_trip(Kafka::Existing(brokers)).await,
        Err(_) => eprintln!("KAFKA_BROKERS is not set, nothing tested"),
    }
}

async fn round_trip(kafka: Kafka) {
    let logs = Scratch::new().unwrap();
    let supervisor = Supervisor::new(true, true);
    let binaries = Binaries::locate(None).unwrap();
    let topic = Topic {
        name: format!("lab-{}", uuid::Uuid::new_v4()),
        partitions: PARTITIONS,
    };
    let broker = Broker::start(&kafka, &supervisor, &binaries, logs.path(), Some(&topic))
        .await
        .unwrap();
    // Creating it again has no effect.
    broker.create_topic(&topic).await.unwrap();

    let partitions = produce(broker.brokers(), &topic.name, 0).await;
    assert!(partitions.len() > 1 && partitions.iter().all(|at| (0..PARTITIONS).contains(at)));
    let first = consume(broker.brokers(), &topic.name).await;
    assert_eq!(first, (0..MESSAGES).map(|n| n.to_string()).collect());

    // The group continues at its committed offset.
    produce(broker.brokers(), &topic.name, MESSAGES).await;
    let second = consume(broker.brokers(), &topic.name).await;
    assert_eq!(
        second,
        (MESSAGES..2 * MESSAGES).map(|n| n.to_string()).collect()
    );

    if !broker.is_private() {
        broker.delete_topic(&topic.name).await.unwrap();
    }
    broker.stop(&supervisor).await.unwrap();
    assert!(supervisor.pids().is_empty());
}

/// Sends numbered messages, each with its own key, and returns their partitions.
async fn produce(brokers: &str, topic: &str, first: usize) -> BTreeSet<i32> {
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("enable.idempotence", "true")
        .create()
        .unwrap();
    let mut partitions = BTreeSet::new();
    for number in first..first + MESSAGES {
        let text = number.to_string();
        let record = FutureRecord::to(topic).key(&text).payload(&text);
        let delivery = producer.send(record, WAIT_MAX).await.unwrap();
        partitions.insert(delivery.partition);
    }
    producer.flush(WAIT_MAX).unwrap();
    partitions
}

/// Reads the same number of messages as a member of the group, and commits them.
async fn consume(brokers: &str, topic: &str) -> BTreeSet<String> {
    let consumer: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", format!("{topic}-readers"))
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .set("fetch.wait.max.ms", "10")
        // The embedded broker's first rebalance takes 3 s, and the session must be longer. Later ones
        // take the session timeout less one second.
        .set("session.timeout.ms", "4000")
        .set("heartbeat.interval.ms", "500")
        .create()
        .unwrap();
    consumer.subscribe(&[topic]).unwrap();
    let mut texts = BTreeSet::new();
    while texts.len() < MESSAGES {
        let message = tokio::time::timeout(WAIT_MAX, consumer.recv())
            .await
            .unwrap()
            .unwrap();
        texts.insert(String::from_utf8(message.payload().unwrap().to_vec()).unwrap());
    }
    consumer.commit_consumer_state(CommitMode::Sync).unwrap();
    texts
}
