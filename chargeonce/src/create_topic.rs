//! `chargeonce create-topic`: the topic between the services, on a cluster that the lab does not run.

use std::time::Duration;

use anyhow::Context;
use tokio::time::Instant;

use endpoints::topic::PARTITIONS_DEFAULT;
use endpoints::topic::{self, Topic};

const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Create the topic between the services; one that exists stays as it is.
///
/// The services create no topics, so that a misspelt name is an error and not an empty topic.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Bootstrap servers, comma separated.
    #[arg(long, env = "KAFKA_BROKERS")]
    brokers: String,
    /// Its name.
    #[arg(long, env = "KAFKA_TOPIC", default_value = "order-events")]
    topic: String,
    /// Its partitions: the most replicas of a service that can share its events.
    #[arg(long, env = "KAFKA_PARTITIONS", default_value_t = PARTITIONS_DEFAULT, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: i32,
    /// How long to wait for a cluster that is only just starting.
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
            Err(error) => return Err(error).with_context(|| format!("at {}", args.brokers)),
        }
    }
    println!("the topic {} is there", topic.name);
    Ok(())
}
