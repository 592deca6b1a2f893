//! The whole service, as `main` runs it.

use std::time::Duration;

use clap::Parser as _;
use receipt::config::{Command, Config, Program};
use receipt::startup::build;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::Harness;

pub(crate) struct Running {
    pub(crate) port: u16,
    pub(crate) operator_port: u16,
    shutdown: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Running {
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// The settings of these flags, on top of the flags that every test needs. No broker listens behind
/// the default address.
pub(crate) fn config(harness: &Harness, flags: &[&str]) -> Config {
    let smtp_port = harness.smtp_port.to_string();
    let operators = testkit::operator::setting();
    let fixed = [
        ["--listen", "127.0.0.1:0"],
        ["--operator-listen", "127.0.0.1:0"],
        ["--operator-tokens", &operators],
        ["--database-url", &harness.url],
        ["--kafka-brokers", "127.0.0.1:1"],
        ["--smtp-port", &smtp_port],
        ["--sender-poll-ms", "20"],
        ["--retry-base-ms", "20"],
        ["--retry-max-ms", "50"],
    ];
    // A flag of the test replaces the fixed one.
    let fixed = fixed.iter().filter(|[name, _]| !flags.contains(name));
    let flags = fixed.flatten().chain(flags);
    let program = Program::parse_from(["receipt", "serve"].iter().chain(flags));
    match program.command {
        Command::Serve(config) => *config,
        Command::Migrate(_) | Command::Healthy(_) => unreachable!("the flags say serve"),
    }
}

/// How long a worker of [`start_impatient`] waits for the store.
const STORE_WAIT_MAX: Duration = Duration::from_secs(2);

pub(crate) async fn start(harness: &Harness, flags: &[&str]) -> Running {
    run(config(harness, flags)).await
}

/// The same with workers that soon give up on a store that does not answer.
pub(crate) async fn start_impatient(harness: &Harness, flags: &[&str]) -> Running {
    let mut config = config(harness, flags);
    config.lease_wait_max = STORE_WAIT_MAX;
    config.record_wait_max = STORE_WAIT_MAX;
    run(config).await
}

async fn run(config: Config) -> Running {
    let application = build(config).await.unwrap();
    let shutdown = CancellationToken::new();
    Running {
        port: application.port().unwrap(),
        operator_port: application.operator_port().unwrap(),
        task: tokio::spawn(application.run_until(shutdown.clone())),
        shutdown,
    }
}
