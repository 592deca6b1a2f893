//! A topic for one test: producing to it, and what a group has committed.

use std::time::Duration;

use events::{Envelope, header};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use uuid::Uuid;

use crate::world::eventually;

pub(crate) const PARTITIONS: i32 = 3;
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Topic {
    pub(crate) brokers: String,
    pub(crate) name: String,
    producer: FutureProducer,
}

impl Topic {
    pub(crate) async fn create() -> Self {
        let brokers = std::env::var("KAFKA_BROKERS").expect(
            "KAFKA_BROKERS is not set: run scripts/test.sh, or `lab infra -- cargo test …`",
        );
        let name = format!("inbox-{}", Uuid::new_v4());
        let topic = Self {
            producer: config(&brokers).create().unwrap(),
            brokers,
            name,
        };
        topic.make().await.unwrap();
        topic
    }

    async fn make(&self) -> Result<String, RDKafkaErrorCode> {
        let new = NewTopic::new(&self.name, PARTITIONS, TopicReplication::Fixed(1));
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        let created = admin(&self.brokers).create_topics([&new], &options).await;
        created.unwrap().remove(0).map_err(|(_, code)| code)
    }

    /// Loses all that is in the topic, as a broker without its disk would.
    pub(crate) async fn recreate(&self) {
        let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
        let deleted = admin(&self.brokers)
            .delete_topics(&[&self.name], &options)
            .await;
        deleted.unwrap()[0].as_ref().unwrap();
        // The broker takes a moment to forget it.
        eventually("the topic is made anew", async || match self.make().await {
            Ok(_) => true,
            Err(RDKafkaErrorCode::TopicAlreadyExists) => false,
            Err(code) => panic!("{code}"),
        })
        .await;
    }

    /// Produces the event as the relay would, to a partition of the caller's choice.
    pub(crate) async fn produce(&self, partition: i32, event: &Envelope) {
        let headers = [
            (header::ID, event.id.to_string()),
            (header::TYPE, event.event_type.to_string()),
            (header::SOURCE, event.source.clone()),
            (header::SUBJECT, event.subject.to_string()),
            (header::TIME, event.time.to_rfc3339()),
            (header::CORRELATION_ID, event.correlation_id.clone()),
        ];
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        self.produce_raw(partition, &headers, &event.payload).await;
    }

    pub(crate) async fn produce_raw(
        &self,
        partition: i32,
        headers: &[(&str, &str)],
        payload: &str,
    ) {
        self.produce_bytes(partition, headers, payload.as_bytes())
            .await;
    }

    pub(crate) async fn produce_bytes(
        &self,
        partition: i32,
        headers: &[(&str, &str)],
        payload: &[u8],
    ) {
        let mut all = OwnedHeaders::new();
        for (key, value) in headers {
            let value = Some(*value);
            all = all.insert(Header { key, value });
        }
        let record: FutureRecord<'_, (), [u8]> = FutureRecord::to(&self.name)
            .partition(partition)
            .headers(all)
            .payload(payload);
        self.producer.send(record, PATIENCE).await.unwrap();
    }

    /// What the group has committed, for each partition; `None` where nothing.
    pub(crate) fn committed(&self, group: &str) -> Vec<Option<i64>> {
        let observer: BaseConsumer = config(&self.brokers)
            .set("group.id", group)
            .create()
            .unwrap();
        let mut asked = TopicPartitionList::new();
        asked.add_partition_range(&self.name, 0, PARTITIONS - 1);
        let committed = observer.committed_offsets(asked, PATIENCE).unwrap();
        let offset = |offset| match offset {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        };
        let elements = committed.elements();
        elements.iter().map(|e| offset(e.offset())).collect()
    }

    /// Makes the broker forget the group and how far it has come.
    pub(crate) async fn forget_group(&self, group: &str) {
        let deleted = admin(&self.brokers)
            .delete_groups(&[group], &AdminOptions::new())
            .await;
        deleted.unwrap()[0].as_ref().unwrap();
    }
}

fn config(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers);
    config
}

fn admin(brokers: &str) -> AdminClient<DefaultClientContext> {
    config(brokers).create().unwrap()
}
