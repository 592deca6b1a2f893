//! Creates and deletes topics on a running Kafka cluster.

use std::time::Duration;

use anyhow::{Context as _, anyhow};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode;

/// Default number of partitions of the topic.
pub const PARTITIONS_DEFAULT: i32 = 6;
/// The cluster's own default (`default.replication.factor`): one node has one copy, a cluster as many as it is set up
/// for.
const REPLICATION: TopicReplication<'_> = TopicReplication::Fixed(-1);
const ADMIN_TIMEOUT: Duration = Duration::from_secs(15);

/// A topic to create.
#[derive(Debug, Clone)]
pub struct Topic {
    pub name: String,
    pub partitions: i32,
}

/// Creates the topic. An existing topic stays unchanged.
pub async fn create(brokers: &str, topic: &Topic) -> anyhow::Result<()> {
    let name = topic.name.as_str();
    let new = NewTopic::new(name, topic.partitions, REPLICATION);
    let results = admin(brokers)?
        .create_topics([&new], &admin_options())
        .await
        .context("cannot create the topic")?;
    match results.into_iter().find_map(|result| Some(result.err()?.1)) {
        None | Some(RDKafkaErrorCode::TopicAlreadyExists) => Ok(()),
        Some(code) => Err(anyhow!("cannot create the topic {name}: {code}")),
    }
}

/// Deletes the topic and its messages. A missing topic is not an error.
pub async fn delete(brokers: &str, name: &str) -> anyhow::Result<()> {
    let results = admin(brokers)?
        .delete_topics(&[name], &admin_options())
        .await
        .context("cannot delete the topic")?;
    match results.into_iter().find_map(|result| Some(result.err()?.1)) {
        None | Some(RDKafkaErrorCode::UnknownTopicOrPartition) => Ok(()),
        Some(code) => Err(anyhow!("cannot delete the topic {name}: {code}")),
    }
}

/// A client for metadata and topics.
pub fn admin(brokers: &str) -> anyhow::Result<AdminClient<DefaultClientContext>> {
    ClientConfig::new()
        .set("bootstrap.servers", brokers)
        // The caller reports a failed connection, so librdkafka does not print it again.
        .set("log_level", "0")
        .create()
        .context("cannot create a Kafka client")
}

fn admin_options() -> AdminOptions {
    AdminOptions::new()
        .request_timeout(Some(ADMIN_TIMEOUT))
        .operation_timeout(Some(ADMIN_TIMEOUT))
}
