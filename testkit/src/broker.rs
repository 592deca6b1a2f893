//! The Kafka broker: started by this kit, or already running.

mod apache;
pub mod embedded;
mod jars;

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use endpoints::topic::{self, Topic, admin};

use crate::binaries::Binaries;
use crate::supervisor::Supervisor;
use apache::Apache;

pub use jars::KAFKA_VERSION as APACHE_VERSION;

/// The name of the broker's process under its supervisor. Further nodes of a cluster are `kafka-2` and `kafka-3`.
pub const PROCESS_NAME: &str = "kafka";
/// The prefix of the cluster id of librdkafka's built-in broker.
const EMBEDDED_CLUSTER_ID: &str = "mockCluster";
/// As many as a partition has copies.
const CLUSTER_NODES: usize = 3;
/// A broker that many tests share can take seconds to respond.
const METADATA_TIMEOUT: Duration = Duration::from_secs(10);

/// Which broker to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kafka {
    /// librdkafka's built-in broker: in memory, in a separate process, nothing to install.
    Embedded,
    /// A real Apache Kafka on one node. Maven downloads its jars.
    Apache,
    /// The same on three nodes of this machine, with three copies of every partition. A write needs two of them.
    ApacheCluster,
    /// A running cluster, by its bootstrap servers.
    Existing(String),
}

impl FromStr for Kafka {
    type Err = String;

    /// `embedded`, `apache`, `apache-3`, or the bootstrap servers of a running cluster.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "embedded" => Ok(Kafka::Embedded),
            "apache" => Ok(Kafka::Apache),
            "apache-3" => Ok(Kafka::ApacheCluster),
            brokers if brokers.contains(':') => Ok(Kafka::Existing(brokers.to_owned())),
            _ => Err("expected `embedded`, `apache`, `apache-3` or HOST:PORT".to_owned()),
        }
    }
}

/// A broker that is reachable.
#[derive(Debug)]
pub struct Broker {
    brokers: String,
    is_private: bool,
    is_embedded: bool,
    apache: Option<Apache>,
}

impl Broker {
    /// Starts the broker, or connects to the existing one, and creates the topic. Logs go to
    /// `log_dir`.
    pub async fn start(
        kafka: &Kafka,
        supervisor: &Supervisor,
        binaries: &Binaries,
        log_dir: &Path,
        topic: Option<&Topic>,
    ) -> anyhow::Result<Broker> {
        let mut apache = None;
        let brokers = match kafka {
            Kafka::Embedded => embedded::start(supervisor, binaries, log_dir, topic).await?,
            Kafka::Apache | Kafka::ApacheCluster => {
                let nodes = if *kafka == Kafka::Apache {
                    1
                } else {
                    CLUSTER_NODES
                };
                let started = apache::start(supervisor, log_dir, nodes).await?;
                apache.insert(started).brokers.clone()
            }
            Kafka::Existing(brokers) => {
                ping(brokers)
                    .await
                    .with_context(|| format!("Kafka at {brokers} is unreachable"))?;
                brokers.clone()
            }
        };
        let broker = Broker {
            is_private: !matches!(kafka, Kafka::Existing(_)),
            is_embedded: is_embedded(&brokers).await?,
            brokers,
            apache,
        };
        if let Some(topic) = topic {
            broker.create_topic(topic).await?;
        }
        Ok(broker)
    }

    /// The bootstrap servers.
    pub fn brokers(&self) -> &str {
        &self.brokers
    }

    /// Whether this kit started the broker and supervises it.
    pub fn is_private(&self) -> bool {
        self.is_private
    }

    /// Whether it is librdkafka's broker. Its long poll always waits for the full timeout.
    pub(crate) fn is_embedded(&self) -> bool {
        self.is_embedded
    }

    /// Creates a topic. An existing topic stays unchanged.
    pub async fn create_topic(&self, topic: &Topic) -> anyhow::Result<()> {
        if self.is_embedded {
            // The embedded broker has no such request. It creates a topic when its metadata is requested.
            return fetch_metadata(&self.brokers, Some(&topic.name)).await;
        }
        topic::create(&self.brokers, topic).await
    }

    /// Deletes a topic and its messages.
    pub async fn delete_topic(&self, topic: &str) -> anyhow::Result<()> {
        if self.is_embedded {
            // The embedded broker has no such request. Its topics end with its process.
            return Ok(());
        }
        topic::delete(&self.brokers, topic).await
    }

    /// Deletes all data of a private Apache Kafka, restarts it, and recreates the empty topic.
    pub async fn lose_data(&self, supervisor: &Supervisor, topic: &Topic) -> anyhow::Result<()> {
        let apache = self.apache.as_ref();
        let apache =
            apache.context("only an Apache Kafka that this kit started can lose its data")?;
        apache.lose_data(supervisor).await?;
        self.create_topic(topic).await
    }

    /// Bytes that a private Apache Kafka stores for a topic.
    pub(crate) fn topic_bytes(&self, topic: &str) -> Option<u64> {
        Some(self.apache.as_ref()?.topic_bytes(topic))
    }

    /// Waits until the broker responds after a restart.
    pub(crate) async fn wait_reachable(&self) -> anyhow::Result<()> {
        ping(&self.brokers).await
    }

    /// Restarts a private Apache Kafka after it lost the second half of one partition.
    pub async fn truncate(
        &self,
        supervisor: &Supervisor,
        topic: &str,
        partition: i32,
    ) -> anyhow::Result<()> {
        let apache = self.apache.as_ref();
        let apache = apache.context("only an Apache Kafka that this kit started can be cut")?;
        let log = format!("{topic}-{partition}");
        apache.truncate(supervisor, &log).await
    }

    /// Stops a private broker. Its files are removed with the supervisor.
    pub async fn stop(self, supervisor: &Supervisor) -> anyhow::Result<()> {
        supervisor.stop_all(self.process_names()).await
    }

    /// The processes of a private broker.
    pub(crate) fn process_names(&self) -> Vec<String> {
        match &self.apache {
            Some(apache) => apache.process_names().map(str::to_owned).collect(),
            None if self.is_private => vec![PROCESS_NAME.to_owned()],
            None => Vec::new(),
        }
    }
}

/// Fails if the broker is unreachable.
async fn ping(brokers: &str) -> anyhow::Result<()> {
    fetch_metadata(brokers, None).await
}

/// Fetches the metadata of the cluster or of one topic.
async fn fetch_metadata(brokers: &str, topic: Option<&str>) -> anyhow::Result<()> {
    let admin = admin(brokers)?;
    let topic = topic.map(str::to_owned);
    // The call blocks its thread until the response or the timeout.
    let fetch = move || {
        admin
            .inner()
            .fetch_metadata(topic.as_deref(), METADATA_TIMEOUT)
            .map(drop)
    };
    let fetched = tokio::task::spawn_blocking(fetch).await?;
    fetched.context("the broker does not respond")
}

/// The number of nodes that the cluster knows.
async fn count_nodes(brokers: &str) -> anyhow::Result<usize> {
    let admin = admin(brokers)?;
    let fetch = move || {
        let metadata = admin.inner().fetch_metadata(None, METADATA_TIMEOUT);
        metadata.map(|metadata| metadata.brokers().len())
    };
    let fetched = tokio::task::spawn_blocking(fetch).await?;
    fetched.context("the broker does not respond")
}

async fn is_embedded(brokers: &str) -> anyhow::Result<bool> {
    let admin = admin(brokers)?;
    let fetch = move || admin.inner().fetch_cluster_id(METADATA_TIMEOUT);
    let id = tokio::task::spawn_blocking(fetch).await?;
    Ok(id.is_some_and(|id| id.starts_with(EMBEDDED_CLUSTER_ID)))
}
