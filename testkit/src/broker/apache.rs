//! A real Apache Kafka in KRaft mode, run with plain `java`: one node, or a cluster whose nodes are all brokers and
//! controllers.

mod properties;

use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::task::JoinSet;

use super::{PROCESS_NAME, count_nodes, jars};
use crate::process::Spec;
use crate::scratch::Scratch;
use crate::supervisor::Supervisor;
use crate::{binaries, readiness};
use properties::Ports;

/// Java starts slowly on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// This broker runs for minutes on a few shared cores. The optimising compiler and the concurrent
/// garbage collector would cost the services more CPU time than they save.
const LOW_CPU_FLAGS: [&str; 2] = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"];

/// Says that every log is complete. Without it Kafka checks its logs from their recovery points on.
const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";
const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";

/// Supervised nodes of one cluster.
#[derive(Debug)]
pub(super) struct Apache {
    pub(super) brokers: String,
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    name: String,
    /// The program that formats its storage.
    format: Spec,
    data: PathBuf,
    log: PathBuf,
}

/// Starts a cluster of this many nodes on free ports.
pub(super) async fn start(supervisor: &Supervisor, log_dir: &Path, count: usize) -> Result<Apache> {
    let java = binaries::in_path("java")
        .context("Apache Kafka needs Java 17 or later: `apt-get install default-jre-headless`")?;
    let jars = jars::directory().await?;
    let ports = (0..count).map(|_| Ports::free());
    let ports: Vec<Ports> = ports.collect::<Result<_>>()?;
    // A random cluster id keeps nodes of other runs from joining this one.
    let id = uuid::Uuid::new_v4().to_string();
    let (mut nodes, mut servers) = (Vec::new(), Vec::new());
    for index in 0..count {
        let name = node_name(index);
        let scratch = Arc::new(Scratch::new()?);
        let settings = scratch.path().join("server.properties");
        let logging = scratch.path().join("log4j2.properties");
        let properties = properties::server(&data_dir(&scratch), &ports, index);
        std::fs::write(&settings, properties)?;
        std::fs::write(&logging, properties::LOG4J)?;
        let log = log_dir.join(format!("{name}.log"));
        let program = |main_class: &str| {
            Spec::new(&java, &log)
                .args(LOW_CPU_FLAGS)
                .args([
                    heap(count).to_owned(),
                    format!("-Dlog4j2.configurationFile={}", logging.display()),
                ])
                .args(["-cp".into(), jars.join("*").into_os_string()])
                .args([main_class])
        };
        let mut server = program("kafka.Kafka").args([&settings]);
        let data = data_dir(&scratch);
        server.files = Some(scratch);
        // The controllers of a cluster are listed in its settings. A single node names itself here.
        let standalone = (count == 1).then_some("--standalone");
        let format = program("kafka.tools.StorageTool")
            .args(["format"].into_iter().chain(standalone))
            .args(["-t", id.as_str(), "-c"])
            .args([&settings]);
        servers.push(server);
        nodes.push(Node {
            name,
            format,
            data,
            log,
        });
    }
    let addresses = ports.iter().map(|it| format!("127.0.0.1:{}", it.broker));
    let cluster = Apache {
        brokers: addresses.collect::<Vec<_>>().join(","),
        nodes,
    };
    cluster.format().await?;
    for (node, server) in cluster.nodes.iter().zip(servers) {
        supervisor.start(&node.name, server, &[])?;
    }
    cluster.wait_ready(supervisor).await?;
    Ok(cluster)
}

impl Apache {
    pub(super) fn process_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.name.as_str())
    }

    /// Restarts all nodes without topics, messages and offsets.
    pub(super) async fn lose_data(&self, supervisor: &Supervisor) -> Result<()> {
        for node in &self.nodes {
            supervisor.stop(&node.name).await?;
            std::fs::remove_dir_all(&node.data).context("cannot remove Kafka's data")?;
        }
        self.format().await?;
        self.start_again(supervisor).await
    }

    /// Restarts the node after it lost the second half of each of these logs, as after a power failure: the bytes
    /// that were not flushed are gone. Kafka itself then finds the last complete batch and cuts the log there. A
    /// cluster would restore the log from another node. `log`: topic and partition, as the directory is named.
    pub(super) async fn truncate(&self, supervisor: &Supervisor, log: &str) -> Result<()> {
        let [node] = &self.nodes[..] else {
            bail!("a cluster restores what one node loses");
        };
        supervisor.stop(&node.name).await?;
        let removed = std::fs::remove_file(node.data.join(CLEAN_SHUTDOWN));
        removed.context("Kafka did not stop cleanly")?;
        let _ = std::fs::remove_file(node.data.join(RECOVERY_POINTS));
        cut_in_half(&node.data.join(log))?;
        self.start_again(supervisor).await
    }

    /// The size of a topic's segments, one copy: every node has one. Kafka preallocates indexes, so they do not count.
    pub(super) fn topic_bytes(&self, topic: &str) -> u64 {
        let partition = |name: &str| {
            let number = name.strip_prefix(topic)?.strip_prefix('-')?;
            number.parse::<u32>().ok()
        };
        let is_partition = |it: &DirEntry| it.file_name().to_str().and_then(partition).is_some();
        let is_segment = |it: &DirEntry| it.path().extension().is_some_and(|it| it == "log");
        let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
        let first = self.nodes.iter().take(1);
        first
            .flat_map(|node| entries(&node.data))
            .filter(is_partition)
            .flat_map(|partition| entries(&partition.path()))
            .filter(is_segment)
            .filter_map(|segment| Some(segment.metadata().ok()?.len()))
            .sum()
    }

    async fn format(&self) -> Result<()> {
        let formats = self.nodes.iter();
        let formats = formats.map(|node| {
            let format = node.format.clone();
            async move { readiness::run_once("formatting Kafka's storage", &format).await }
        });
        let formats: JoinSet<Result<()>> = formats.collect();
        formats.join_all().await.into_iter().collect()
    }

    async fn start_again(&self, supervisor: &Supervisor) -> Result<()> {
        for node in &self.nodes {
            supervisor.start_again(&node.name)?;
        }
        self.wait_ready(supervisor).await
    }

    /// Returns once every node has joined.
    async fn wait_ready(&self, supervisor: &Supervisor) -> Result<()> {
        let probe = || async {
            let joined = count_nodes(&self.brokers).await?;
            ensure!(joined == self.nodes.len(), "{joined} nodes have joined");
            Ok(())
        };
        for Node { name, log, .. } in &self.nodes {
            readiness::wait(supervisor, name, log, START_TIMEOUT, probe).await?;
        }
        Ok(())
    }
}

/// The name of a node's process: the second one is `kafka-2`.
fn node_name(index: usize) -> String {
    match index {
        0 => PROCESS_NAME.to_owned(),
        _ => format!("{PROCESS_NAME}-{}", index + 1),
    }
}

fn heap(nodes: usize) -> &'static str {
    if nodes == 1 { "-Xmx512m" } else { "-Xmx256m" }
}

/// Halves the segments of a log. Indexes and producer snapshots go too; Kafka builds them again.
fn cut_in_half(log: &Path) -> Result<()> {
    for entry in std::fs::read_dir(log).with_context(|| format!("no log {}", log.display()))? {
        let path = entry?.path();
        match path.extension().and_then(|it| it.to_str()) {
            Some("log") => {
                let segment = std::fs::OpenOptions::new().write(true).open(&path)?;
                segment.set_len(segment.metadata()?.len() / 2)?;
            }
            Some("index" | "timeindex" | "snapshot") => std::fs::remove_file(&path)?,
            _ => {}
        }
    }
    Ok(())
}

fn data_dir(scratch: &Scratch) -> PathBuf {
    scratch.path().join("data")
}
