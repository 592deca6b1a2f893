//! `chargeonce create-topic`: creates the topic between the services on an existing Kafka cluster.

use std::time::Duration;

use anyhow::Context;
use tokio::time::Instant;

use endpoints::topic::{self, PARTITIONS_DEFAULT, Topic};

const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Create the Kafka topic between the services; an existing topic stays unchanged.
///
/// Run it once before the first start on your own Kafka cluster. The services create no topics, so
/// that a misspelt name causes an error and not an empty topic. It needs no running system.
///
/// Exits with 0 if the topic exists afterwards, with 1 if the cluster cannot be reached or rejects it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Kafka's bootstrap servers, comma separated.
    #[arg(long, env = "KAFKA_BROKERS")]
    brokers: String,
    /// Name of the topic.
    #[arg(long, env = "KAFKA_TOPIC", default_value = "order-events")]
    topic: String,
    /// Number of partitions. It limits how many replicas of a service can share the events.
    #[arg(long, env = "KAFKA_PARTITIONS", default_value_t = PARTITIONS_DEFAULT, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    /// How long to wait for a cluster that is still starting.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let topic = Topic {
        name: args.topic,
        partitions: args.partitions,
    };
    let deadline = Instant::now() + Duration::from_secs(args.seconds);
    loop {
        match topic::create(&args.brokers, &topic).await {
            Ok(()) => break,
            Err(_) if Instant::now() < deadline => tokio::time::sleep(RETRY_INTERVAL).await,
            Err(error) => return Err(error).with_context(|| format!("Kafka at {}", args.brokers)),
        }
    }
    println!("topic {} exists", topic.name);
    Ok(())
}
