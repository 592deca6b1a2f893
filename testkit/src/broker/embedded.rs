//! librdkafka's mock cluster as a broker: real protocol, consumer groups, idempotent producers.
//!
//! It keeps only the last 5 MB or 100,000 messages of each partition, in memory. That is enough for
//! a demo or a test, but not for consumers that lag far behind. A group's first rebalance takes 3 s,
//! so a shorter session never joins. Later rebalances take the session timeout less one second.
//! It runs in a separate process, so that it can be measured and killed like any broker. Like any
//! process it is restarted, on the same port and empty.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::Args as ClapArgs;
use rdkafka::mocking::MockCluster;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use super::{PROCESS_NAME, Topic, ping};
use crate::binaries::Binaries;
use crate::process::Spec;
use crate::supervisor::Supervisor;
use crate::{ports, readiness};

const START_TIMEOUT: Duration = Duration::from_secs(15);
/// More brokers would only cost time on one machine.
const BROKER_COUNT: i32 = 1;

/// Run the embedded broker until SIGTERM. The lab starts it; not for users.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Address of the bootstrap server.
    #[arg(long)]
    listen: SocketAddr,
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
    // Bound once the topics exist: a client that gets through finds them.
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("binding {}", args.listen))?;
    tokio::select! {
        ended = forward(listener, cluster.bootstrap_servers()) => ended,
        _ = terminated.recv() => Ok(()),
    }
}

/// Forwards connections to the mock cluster until it is dropped.
///
/// The mock cluster always binds a free port, so after a restart it has another one. Clients ask the
/// bootstrap server, whose port is fixed, for the current port when the one that they know is gone.
async fn forward(listener: TcpListener, cluster: String) -> anyhow::Result<()> {
    // Dropping the set closes the connections.
    let mut connections = JoinSet::new();
    loop {
        let (mut client, _) = tokio::select! {
            accepted = listener.accept() => accepted.context("accepting a connection")?,
            Some(_) = connections.join_next() => continue,
        };
        let cluster = cluster.clone();
        // A connection that ends is not an error of the broker.
        connections.spawn(async move {
            let mut server = TcpStream::connect(&cluster).await?;
            tokio::io::copy_bidirectional(&mut client, &mut server).await
        });
    }
}

/// Starts the process and returns its bootstrap server.
pub(super) async fn start(
    supervisor: &Supervisor,
    binaries: &Binaries,
    log_dir: &Path,
    topic: Option<&Topic>,
) -> anyhow::Result<String> {
    let brokers = format!("127.0.0.1:{}", ports::free()?);
    let log = log_dir.join("kafka.log");
    let mut spec = Spec::new(binaries.path("lab")?, &log).args(["broker", "--listen", &brokers]);
    if let Some(topic) = topic {
        spec = spec
            .args(["--topic", &topic.name])
            .args(["--partitions", &topic.partitions.to_string()]);
    }
    supervisor.start(PROCESS_NAME, spec, &[])?;
    let probe = || async { ping(&brokers).await };
    readiness::wait(supervisor, PROCESS_NAME, &log, START_TIMEOUT, probe).await?;
    Ok(brokers)
}
