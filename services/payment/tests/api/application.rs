//! The whole service, as `main` runs it. No broker listens behind it.

use std::time::Duration;

use clap::Parser as _;
use payment::config::{Command, Config, Program};
use payment::startup::build;
use testkit::fault_proxy::FaultProxy;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::harness::Harness;

pub(crate) struct Running {
    pub(crate) port: u16,
    pub(crate) operator_port: u16,
    pub(crate) shutdown: CancellationToken,
    pub(crate) task: JoinHandle<anyhow::Result<()>>,
}

/// The settings of these flags, on top of the flags that every test needs.
pub(crate) fn config(harness: &Harness, flags: &[&str]) -> Config {
    let psp_url = harness.psp.uri();
    let operators = testkit::operator::setting();
    let fixed = [
        ["--listen", "127.0.0.1:0"],
        ["--operator-listen", "127.0.0.1:0"],
        ["--operator-tokens", &operators],
        ["--database-url", &harness.url],
        ["--kafka-brokers", "127.0.0.1:1"],
        ["--psp-url", &psp_url],
        ["--charger-poll-ms", "20"],
        ["--retry-base-ms", "20"],
        ["--retry-max-ms", "50"],
    ];
    // A flag of the test replaces the fixed one.
    let fixed = fixed.iter().filter(|[name, _]| !flags.contains(name));
    let flags = fixed.flatten().chain(flags);
    let program = Program::parse_from(["payment", "serve"].iter().chain(flags));
    match program.command {
        Command::Serve(config) => *config,
        Command::Migrate(_) | Command::Healthy(_) => unreachable!("the flags say serve"),
    }
}

/// The service with its provider behind a proxy, and with time-outs that outlast the test.
pub(crate) async fn start_behind(
    harness: &Harness,
    provider: &FaultProxy,
    flags: &[&str],
) -> Running {
    let url = provider.url.trim_end_matches('/');
    let patient = [
        "--psp-url",
        url,
        "--psp-timeout-ms",
        "600000",
        "--lease-ms",
        "900000",
    ];
    start(harness, &[&patient, flags].concat()).await
}

/// How long a worker of [`start_impatient`] waits for the store.
pub(crate) const STORE_WAIT_MAX: Duration = Duration::from_secs(2);

/// The service with workers that soon give up on a store that does not answer.
pub(crate) async fn start_impatient(harness: &Harness, flags: &[&str]) -> Running {
    let mut config = config(harness, flags);
    config.lease_wait_max = STORE_WAIT_MAX;
    config.record_wait_max = STORE_WAIT_MAX;
    run(config).await
}

pub(crate) async fn start(harness: &Harness, flags: &[&str]) -> Running {
    run(config(harness, flags)).await
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
