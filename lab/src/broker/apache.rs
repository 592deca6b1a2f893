//! A real Apache Kafka: one node in KRaft mode, run with plain `java`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{PROCESS_NAME, jars, ping};
use crate::process::Spec;
use crate::scratch::Scratch;
use crate::supervisor::Supervisor;
use crate::{binaries, ports, readiness};

/// A cold Java on a busy machine takes its time.
const START_TIMEOUT: Duration = Duration::from_secs(90);
const HEAP: &str = "-Xmx512m";
/// For a broker that lives minutes on a few shared cores: the optimising compiler and the
/// concurrent collector would take more CPU from the services than they ever give back.
const FRUGAL: [&str; 2] = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"];

/// Starts Kafka on free ports and returns its bootstrap servers.
pub(super) async fn start(supervisor: &Supervisor, log_dir: &Path) -> Result<String> {
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
            .args(FRUGAL)
            .args([
                HEAP.to_owned(),
                format!("-Dlog4j2.configurationFile={}", logging.display()),
            ])
            .args(["-cp".into(), jars.join("*").into_os_string()])
            .args([main_class])
    };
    format_storage(program("kafka.tools.StorageTool"), &settings).await?;
    let mut server = program("kafka.Kafka").args([&settings]);
    server.files = Some(scratch);
    supervisor.start(PROCESS_NAME, server, &[])?;

    let brokers = format!("127.0.0.1:{port}");
    readiness::wait(supervisor, PROCESS_NAME, &log, START_TIMEOUT, async || {
        ping(&brokers).await
    })
    .await?;
    Ok(brokers)
}

async fn format_storage(tool: Spec, settings: &PathBuf) -> Result<()> {
    // A cluster id is a UUID; so a node of another run can never take this one for its own.
    let id = uuid::Uuid::new_v4().to_string();
    let tool = tool
        .args(["format", "--standalone", "-t", id.as_str(), "-c"])
        .args([settings]);
    readiness::run_once("formatting Kafka's storage", &tool).await
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
# A new group is served at once; in production the pause gathers its members first.
group.initial.rebalance.delay.ms=0
# Tests kill members and do not want to wait long for the group to notice.
group.min.session.timeout.ms=1000
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
",
        scratch.path().join("data").display()
    )
}

/// Only what is wrong, on standard output, which the supervisor puts into the log.
const LOG4J_PROPERTIES: &str = "appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{ISO8601} %p %c{1}: %m%n
rootLogger.level=warn
rootLogger.appenderRef.console.ref=console
";
