//! `fulfilment serve`, `fulfilment migrate` and `fulfilment healthy`.

use std::process::ExitCode;

use clap::Parser as _;
use fulfilment::config::{Command, Program};
use fulfilment::startup::{build, migrate};
use service_kit::program;

#[tokio::main]
async fn main() -> ExitCode {
    let Program { telemetry, command } = Program::parse();
    program::run("fulfilment", &telemetry, async {
        match command {
            Command::Serve(config) => {
                let shutdown = program::shutdown_on_signal()?;
                build(*config).await?.run_until(shutdown).await
            }
            Command::Migrate(migration) => migrate(migration).await,
            Command::Healthy(probe) => probe.ask().await,
        }
    })
    .await
}
