//! A topic for one test, and all that is in it.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{Consumer as _, StreamConsumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{BorrowedMessage, Headers as _};
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};
use uuid::Uuid;

use crate::world::eventually;

const PARTITIONS: i32 = 3;
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Topic {
    pub(crate) brokers: String,
    pub(crate) name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) key: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) payload: String,
}

impl Received {
    pub(crate) fn id(&self) -> &str {
        &self.headers["ce_id"]
    }
}

impl Topic {
    pub(crate) async fn create() -> Self {
        let brokers = std::env::var("KAFKA_BROKERS").expect(
            "KAFKA_BROKERS is not set: run scripts/test.sh, or `lab infra -- cargo test …`",
        );
        let name = format!("outbox-{}", Uuid::new_v4());
        let topic = Self { brokers, name };
        topic.make().await.unwrap();
        topic
    }

    async fn make(&self) -> Result<String, RDKafkaErrorCode> {
        let new = NewTopic::new(&self.name, PARTITIONS, TopicReplication::Fixed(1));
        let mut created = self
            .admin()
            .create_topics([&new], &options())
            .await
            .unwrap();
        created.remove(0).map_err(|(_, code)| code)
    }

    /// Loses all that is in the topic, as a broker without its disk would.
    pub(crate) async fn recreate(&self) {
        let deleted = self.admin().delete_topics(&[&self.name], &options()).await;
        deleted.unwrap()[0].as_ref().unwrap();
        // The broker takes a moment to forget it.
        eventually("the topic is made anew", async || match self.make().await {
            Ok(_) => true,
            Err(RDKafkaErrorCode::TopicAlreadyExists) => false,
            Err(code) => panic!("{code}"),
        })
        .await;
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        config.create().unwrap()
    }

    /// Everything in the topic now, in the order of each partition.
    pub(crate) async fn read(&self) -> Vec<Received> {
        let consumer: StreamConsumer = ClientConfig::new()
            .set("bootstrap.servers", &self.brokers)
            .set("group.id", "never-joined")
            .set("enable.auto.commit", "false")
            .set("fetch.wait.max.ms", "20")
            .create()
            .unwrap();
        let mut received = Vec::new();
        for partition in 0..PARTITIONS {
            let (_, end) = consumer
                .fetch_watermarks(&self.name, partition, PATIENCE)
                .unwrap();
            let mut all = TopicPartitionList::new();
            all.add_partition_offset(&self.name, partition, Offset::Beginning)
                .unwrap();
            consumer.assign(&all).unwrap();
            for _ in 0..end {
                let message = tokio::time::timeout(PATIENCE, consumer.recv()).await;
                received.push(open(&message.expect("the topic ends early").unwrap()));
            }
        }
        received
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(PATIENCE))
}

fn open(message: &BorrowedMessage<'_>) -> Received {
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
