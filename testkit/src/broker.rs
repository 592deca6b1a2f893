//! The broker between the services: one of ours, or one that runs already.

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

/// The name of the broker's process under its supervisor.
pub const PROCESS_NAME: &str = "kafka";
/// How librdkafka's own broker calls its clusters.
const EMBEDDED_CLUSTER_ID: &str = "mockCluster";
/// A broker that many tests share can take seconds to respond.
const METADATA_TIMEOUT: Duration = Duration::from_secs(10);

/// Which broker carries the events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kafka {
    /// librdkafka's own broker: in memory, in a process of its own, nothing to install.
    Embedded,
    /// A real Apache Kafka on one node, its jars fetched by Maven.
    Apache,
    /// A running cluster, by its bootstrap servers.
    Existing(String),
}

impl FromStr for Kafka {
    type Err = String;

    /// `embedded`, `apache`, or the bootstrap servers of a running cluster.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "embedded" => Ok(Kafka::Embedded),
            "apache" => Ok(Kafka::Apache),
            brokers if brokers.contains(':') => Ok(Kafka::Existing(brokers.to_owned())),
            _ => Err("expected `embedded`, `apache` or HOST:PORT".to_owned()),
        }
    }
}

/// A broker that answers.
#[derive(Debug)]
pub struct Broker {
    brokers: String,
    is_ours: bool,
    is_embedded: bool,
    apache: Option<Apache>,
}

impl Broker {
    /// Starts the broker, or looks for the existing one, and sees that the topic exists.
    /// Logs go to `log_dir`.
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
            Kafka::Apache => {
                let node = apache::start(supervisor, log_dir).await?;
                apache.insert(node).brokers.clone()
            }
            Kafka::Existing(brokers) => {
                ping(brokers)
                    .await
                    .with_context(|| format!("no Kafka answers at {brokers}"))?;
                brokers.clone()
            }
        };
        let broker = Broker {
            is_ours: !matches!(kafka, Kafka::Existing(_)),
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

    /// Whether it runs under our supervisor.
    pub fn is_ours(&self) -> bool {
        self.is_ours
    }

    /// Whether it is librdkafka's broker, whose long poll always waits its time out.
    pub fn is_embedded(&self) -> bool {
        self.is_embedded
    }

    /// Creates a topic; one that exists stays as it is.
    pub async fn create_topic(&self, topic: &Topic) -> anyhow::Result<()> {
        if self.is_embedded {
            // It has no such request, and creates what it is asked about.
            return ask(&self.brokers, Some(&topic.name)).await;
        }
        topic::create(&self.brokers, topic).await
    }

    /// Deletes a topic and what is in it.
    pub async fn delete_topic(&self, topic: &str) -> anyhow::Result<()> {
        if self.is_embedded {
            // It cannot, and forgets everything with its process.
            return Ok(());
        }
        topic::delete(&self.brokers, topic).await
    }

    /// Has an Apache Kafka of ours lose all its data, and come back with nothing but the topic.
    pub async fn lose_data(&self, supervisor: &Supervisor, topic: &Topic) -> anyhow::Result<()> {
        let apache = self.apache.as_ref();
        let apache = apache.context("only an Apache Kafka of the lab can lose its data")?;
        apache.lose_data(supervisor).await?;
        self.create_topic(topic).await
    }

    /// Stops it, if it is ours; its files go with the supervisor.
    pub async fn stop(self, supervisor: &Supervisor) -> anyhow::Result<()> {
        if self.is_ours() {
            supervisor.stop(PROCESS_NAME).await?;
        }
        Ok(())
    }
}

/// Whether a broker answers.
async fn ping(brokers: &str) -> anyhow::Result<()> {
    ask(brokers, None).await
}

/// Asks for the metadata of the cluster or of one topic.
async fn ask(brokers: &str, topic: Option<&str>) -> anyhow::Result<()> {
    let admin = admin(brokers)?;
    let topic = topic.map(str::to_owned);
    // The call blocks its thread until the answer or the time-out.
    let ask = move || {
        admin
            .inner()
            .fetch_metadata(topic.as_deref(), METADATA_TIMEOUT)
            .map(drop)
    };
    let answer = tokio::task::spawn_blocking(ask).await?;
    answer.context("the broker does not answer")
}

async fn is_embedded(brokers: &str) -> anyhow::Result<bool> {
    let admin = admin(brokers)?;
    let ask = move || admin.inner().fetch_cluster_id(METADATA_TIMEOUT);
    let id = tokio::task::spawn_blocking(ask).await?;
    Ok(id.is_some_and(|id| id.starts_with(EMBEDDED_CLUSTER_ID)))
}
