//! librdkafka's mock cluster as a broker: real protocol, consumer groups, idempotent producers.
//!
//! It keeps only the last 5 MB or 100,000 messages of each partition, in memory. That is enough for
//! a demo or a test, but not for consumers that lag far behind. A group's first rebalance takes 3 s,
//! so a shorter session never joins. Later rebalances take the session time-out less one second.
//! It runs in a separate process, so that it can be measured and killed like any broker.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args as ClapArgs;
use rdkafka::mocking::MockCluster;
use tokio::signal::unix::{SignalKind, signal};

use super::{PROCESS_NAME, Topic, ping};
use crate::binaries::Binaries;
use crate::process::Spec;
use crate::readiness;
use crate::scratch::Scratch;
use crate::supervisor::Supervisor;

const START_TIMEOUT: Duration = Duration::from_secs(15);
/// More brokers would only cost time on one machine.
const BROKER_COUNT: i32 = 1;

/// Run the embedded broker until SIGTERM. The lab starts it; not for users.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// File for the bootstrap servers, written once the broker listens.
    #[arg(long)]
    port_file: PathBuf,
    /// Topics to create. Other topics are created with 4 partitions when their metadata is requested.
    #[arg(long = "topic")]
    topics: Vec<String>,
    /// Partitions of those topics.
    #[arg(long, default_value_t = endpoints::topic::PARTITIONS_DEFAULT)]
    partitions: i32,
}

/// The broker's process.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let cluster = MockCluster::new(BROKER_COUNT).context("cannot start the embedded broker")?;
    for topic in &args.topics {
        cluster.create_topic(topic, args.partitions, BROKER_COUNT)?;
    }
    // Renamed into place, so that a reader never sees half of it.
    let draft = args.port_file.with_extension("draft");
    std::fs::write(&draft, cluster.bootstrap_servers())?;
    std::fs::rename(&draft, &args.port_file)?;
    terminated.recv().await;
    Ok(())
}

/// Starts the process and returns its bootstrap servers.
pub(super) async fn start(
    supervisor: &Supervisor,
    binaries: &Binaries,
    log_dir: &Path,
    topic: Option<&Topic>,
) -> anyhow::Result<String> {
    let scratch = Arc::new(Scratch::new()?);
    let port_file = scratch.path().join("bootstrap-servers");
    let log = log_dir.join("kafka.log");
    let mut spec = Spec::new(binaries.path("lab")?, &log).args([
        "broker".into(),
        "--port-file".into(),
        port_file.clone().into_os_string(),
    ]);
    if let Some(topic) = topic {
        spec = spec
            .args(["--topic", &topic.name])
            .args(["--partitions", &topic.partitions.to_string()]);
    }
    // A restarted broker would have another port and no messages.
    spec.restartable = false;
    spec.files = Some(scratch);
    supervisor.start(PROCESS_NAME, spec, &[])?;

    let mut brokers = String::new();
    readiness::wait(supervisor, PROCESS_NAME, &log, START_TIMEOUT, async || {
        brokers = std::fs::read_to_string(&port_file)?;
        ping(&brokers).await
    })
    .await?;
    Ok(brokers)
}
