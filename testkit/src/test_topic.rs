//! A Kafka topic for one test: publish to it, read it, lose its data.

// A panic here fails the test, as it should.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::time::Duration;

use events::{Envelope, Event, Origin, header};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, StreamConsumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{BorrowedMessage, Header, Headers as _, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};
use uuid::Uuid;

use crate::eventually;

const BROKER_TIMEOUT: Duration = Duration::from_secs(60);

/// A topic that only one test uses.
pub struct TestTopic {
    pub brokers: String,
    pub name: String,
    partitions: i32,
    producer: FutureProducer,
}

/// The event as the relay of this service publishes it. The correlation id names the order.
pub fn sealed(source: &'static str, event: &impl Event) -> Envelope {
    let correlation_id = format!("corr-{}", event.order_id());
    let origin = Origin {
        source,
        correlation_id: &correlation_id,
        traceparent: None,
    };
    Envelope::seal(origin, event).unwrap()
}

/// One message as a consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub key: String,
    pub headers: BTreeMap<String, String>,
    pub payload: String,
}

impl Received {
    pub fn id(&self) -> &str {
        &self.headers[header::ID]
    }
}

impl TestTopic {
    /// Creates a topic on the broker that `KAFKA_BROKERS` names.
    pub async fn create(label: &str, partitions: i32) -> Self {
        let brokers = std::env::var("KAFKA_BROKERS").expect(
            "KAFKA_BROKERS is not set: run scripts/test.sh, or `lab infra -- cargo test …`",
        );
        let topic = Self {
            producer: config(&brokers).create().unwrap(),
            name: format!("{label}-{}", Uuid::new_v4()),
            brokers,
            partitions,
        };
        topic.try_create().await.unwrap();
        topic
    }

    /// A topic that exists already, on any broker.
    pub fn existing(brokers: &str, name: &str, partitions: i32) -> Self {
        Self {
            producer: config(brokers).create().unwrap(),
            name: name.to_owned(),
            brokers: brokers.to_owned(),
            partitions,
        }
    }

    async fn try_create(&self) -> Result<String, RDKafkaErrorCode> {
        let new = NewTopic::new(&self.name, self.partitions, TopicReplication::Fixed(1));
        let mut created = self
            .admin()
            .create_topics([&new], &options())
            .await
            .unwrap();
        created.remove(0).map_err(|(_, code)| code)
    }

    /// Deletes the topic. The broker may take a moment.
    pub async fn delete(&self) {
        let deleted = self.admin().delete_topics(&[&self.name], &options()).await;
        deleted.unwrap()[0].as_ref().unwrap();
    }

    /// Deletes and recreates the topic, as if the broker had lost its disk.
    pub async fn recreate(&self) {
        self.delete().await;
        // The broker deletes asynchronously.
        eventually("the topic is created again", async || {
            match self.try_create().await {
                Ok(_) => true,
                Err(RDKafkaErrorCode::TopicAlreadyExists) => false,
                Err(code) => panic!("{code}"),
            }
        })
        .await;
    }

    /// Publishes the event as a relay does: keyed by order id, with its CloudEvents headers.
    pub async fn publish(&self, event: &Envelope) {
        self.publish_to(None, event).await;
    }

    /// The same, to a given partition.
    pub async fn publish_to(&self, partition: impl Into<Option<i32>>, event: &Envelope) {
        let key = event.subject.to_string();
        let headers = [
            (header::ID, event.id.to_string()),
            (header::TYPE, event.event_type.to_string()),
            (header::SOURCE, event.source.clone()),
            (header::SUBJECT, key.clone()),
            (header::TIME, event.time.to_rfc3339()),
            (header::CORRELATION_ID, event.correlation_id.clone()),
        ];
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let payload = event.payload.as_bytes();
        self.send(partition.into(), Some(&key), &headers, payload)
            .await;
    }

    /// Publishes a message once more, as it was received.
    pub async fn publish_again(&self, message: &Received) {
        let headers = message.headers.iter();
        let headers: Vec<(&str, &str)> = headers.map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let payload = message.payload.as_bytes();
        self.send(None, Some(&message.key), &headers, payload).await;
    }

    /// Publishes any bytes with any headers, without a key.
    pub async fn publish_raw(
        &self,
        partition: i32,
        headers: &[(&str, &str)],
        payload: impl AsRef<[u8]>,
    ) {
        self.send(Some(partition), None, headers, payload.as_ref())
            .await;
    }

    async fn send(
        &self,
        partition: Option<i32>,
        key: Option<&str>,
        headers: &[(&str, &str)],
        payload: &[u8],
    ) {
        let mut all = OwnedHeaders::new();
        for (key, value) in headers {
            let value = Some(*value);
            all = all.insert(Header { key, value });
        }
        let mut record: FutureRecord<'_, str, [u8]> =
            FutureRecord::to(&self.name).headers(all).payload(payload);
        record.key = key;
        record.partition = partition;
        self.producer.send(record, BROKER_TIMEOUT).await.unwrap();
    }

    /// Every message in the topic now, in partition order.
    pub async fn read(&self) -> Vec<Received> {
        let consumer: StreamConsumer = config(&self.brokers)
            .set("group.id", "never-joined")
            .set("enable.auto.commit", "false")
            .set("fetch.wait.max.ms", "20")
            .create()
            .unwrap();
        let mut received = Vec::new();
        for partition in 0..self.partitions {
            let (_, end) = consumer
                .fetch_watermarks(&self.name, partition, BROKER_TIMEOUT)
                .unwrap();
            let mut all = TopicPartitionList::new();
            all.add_partition_offset(&self.name, partition, Offset::Beginning)
                .unwrap();
            consumer.assign(&all).unwrap();
            for _ in 0..end {
                let message = tokio::time::timeout(BROKER_TIMEOUT, consumer.recv()).await;
                received.push(read_message(
                    &message.expect("the topic ended early").unwrap(),
                ));
            }
        }
        received
    }

    /// The offset that the group committed for each partition, if any.
    pub fn committed(&self, group: &str) -> Vec<Option<i64>> {
        let offset = |offset| match offset {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        };
        let committed = self.offsets(group);
        let elements = committed.elements();
        elements.iter().map(|e| offset(e.offset())).collect()
    }

    /// The group's offsets with their metadata.
    pub fn offsets(&self, group: &str) -> TopicPartitionList {
        let mut partitions = TopicPartitionList::new();
        partitions.add_partition_range(&self.name, 0, self.partitions - 1);
        let observer = self.observer(group);
        let committed = observer.committed_offsets(partitions, BROKER_TIMEOUT);
        committed.unwrap()
    }

    /// Commits the group's offsets. The group must be empty.
    pub fn set_offsets(&self, group: &str, offsets: &TopicPartitionList) {
        let committed = self.observer(group).commit(offsets, CommitMode::Sync);
        committed.unwrap();
    }

    fn observer(&self, group: &str) -> BaseConsumer {
        config(&self.brokers)
            .set("group.id", group)
            .create()
            .unwrap()
    }

    /// Deletes the group and its offsets.
    pub async fn forget_group(&self, group: &str) {
        let deleted = self
            .admin()
            .delete_groups(&[group], &AdminOptions::new())
            .await;
        deleted.unwrap()[0].as_ref().unwrap();
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        config(&self.brokers).create().unwrap()
    }
}

fn config(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    config
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(BROKER_TIMEOUT))
}

fn read_message(message: &BorrowedMessage<'_>) -> Received {
    let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap().to_vec()).unwrap();
    let headers = message.headers().unwrap().iter();
    Received {
        key: text(message.key()),
        headers: headers
            .map(|header| (header.key.to_owned(), text(header.value)))
            .collect(),
        payload: text(message.payload()),
    }
}
