//! A real Apache Kafka: one node in KRaft mode, run with plain `java`.

use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{PROCESS_NAME, jars, ping};
use crate::process::Spec;
use crate::scratch::Scratch;
use crate::supervisor::Supervisor;
use crate::{binaries, ports, readiness};

/// Java starts slowly on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(90);
const HEAP: &str = "-Xmx512m";
/// This broker runs for minutes on a few shared cores. The optimising compiler and the concurrent
/// garbage collector would cost the services more CPU time than they save.
const LOW_CPU_FLAGS: [&str; 2] = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"];

/// Says that every log is complete. Without it Kafka checks its logs from their recovery points on.
const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";
const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";

/// A supervised node.
#[derive(Debug)]
pub(super) struct Apache {
    pub(super) brokers: String,
    /// The program that formats its storage.
    format: Spec,
    data: PathBuf,
    log: PathBuf,
}

/// Starts Kafka on free ports.
pub(super) async fn start(supervisor: &Supervisor, log_dir: &Path) -> Result<Apache> {
    let java = binaries::in_path("java")
        .context("Apache Kafka needs Java 17 or later: `apt-get install default-jre-headless`")?;
    let jars = jars::directory().await?;
    let scratch = Arc::new(Scratch::new()?);
    let port = ports::free()?;
    let settings = scratch.path().join("server.properties");
    let logging = scratch.path().join("log4j2.properties");
    std::fs::write(&settings, server_properties(&scratch, port, ports::free()?))?;
    std::fs::write(&logging, LOG4J_PROPERTIES)?;

    let log = log_dir.join("kafka.log");
    let program = |main_class: &str| {
        Spec::new(&java, &log)
            .args(LOW_CPU_FLAGS)
            .args([
                HEAP.to_owned(),
                format!("-Dlog4j2.configurationFile={}", logging.display()),
            ])
            .args(["-cp".into(), jars.join("*").into_os_string()])
            .args([main_class])
    };
    // A random cluster id keeps nodes of other runs from joining this one.
    let id = uuid::Uuid::new_v4().to_string();
    let node = Apache {
        brokers: format!("127.0.0.1:{port}"),
        format: program("kafka.tools.StorageTool")
            .args(["format", "--standalone", "-t", id.as_str(), "-c"])
            .args([&settings]),
        data: data_dir(&scratch),
        log: log.clone(),
    };
    let mut server = program("kafka.Kafka").args([&settings]);
    server.files = Some(scratch);
    node.format().await?;
    supervisor.start(PROCESS_NAME, server, &[])?;
    node.wait_ready(supervisor).await?;
    Ok(node)
}

impl Apache {
    /// Restarts the node without topics, messages and offsets.
    pub(super) async fn lose_data(&self, supervisor: &Supervisor) -> Result<()> {
        supervisor.stop(PROCESS_NAME).await?;
        std::fs::remove_dir_all(&self.data).context("cannot remove Kafka's data")?;
        self.format().await?;
        supervisor.start_again(PROCESS_NAME)?;
        self.wait_ready(supervisor).await
    }

    /// Restarts the node after it lost the second half of each of these logs, as after a power failure: the bytes
    /// that were not flushed are gone. Kafka itself then finds the last complete batch and cuts the log there.
    /// `log`: topic and partition, as the directory is named.
    pub(super) async fn truncate(&self, supervisor: &Supervisor, log: &str) -> Result<()> {
        supervisor.stop(PROCESS_NAME).await?;
        let removed = std::fs::remove_file(self.data.join(CLEAN_SHUTDOWN));
        removed.context("Kafka did not stop cleanly")?;
        let _ = std::fs::remove_file(self.data.join(RECOVERY_POINTS));
        cut_in_half(&self.data.join(log))?;
        supervisor.start_again(PROCESS_NAME)?;
        self.wait_ready(supervisor).await
    }

    /// The size of a topic's segments. Kafka preallocates indexes, so they do not count.
    pub(super) fn topic_bytes(&self, topic: &str) -> u64 {
        let partition = |name: &str| {
            let number = name.strip_prefix(topic)?.strip_prefix('-')?;
            number.parse::<u32>().ok()
        };
        let is_partition = |it: &DirEntry| it.file_name().to_str().and_then(partition).is_some();
        let is_segment = |it: &DirEntry| it.path().extension().is_some_and(|it| it == "log");
        let entries = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
        entries(&self.data)
            .filter(is_partition)
            .flat_map(|partition| entries(&partition.path()))
            .filter(is_segment)
            .filter_map(|segment| Some(segment.metadata().ok()?.len()))
            .sum()
    }

    async fn format(&self) -> Result<()> {
        readiness::run_once("formatting Kafka's storage", &self.format).await
    }

    async fn wait_ready(&self, supervisor: &Supervisor) -> Result<()> {
        let probe = || async { ping(&self.brokers).await };
        readiness::wait(supervisor, PROCESS_NAME, &self.log, START_TIMEOUT, probe).await
    }
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

fn server_properties(scratch: &Scratch, port: u16, controller_port: u16) -> String {
    format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={}
auto.create.topics.enable=false
# A new group is served immediately. In production the delay lets its members join first.
group.initial.rebalance.delay.ms=0
# Tests kill members, and the group must notice soon.
group.min.session.timeout.ms=1000
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
",
        data_dir(scratch).display()
    )
}

/// Warnings and errors only, on standard output, which the supervisor writes to the log.
const LOG4J_PROPERTIES: &str = "appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{ISO8601} %p %c{1}: %m%n
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
";
