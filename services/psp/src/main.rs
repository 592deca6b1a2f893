//! `psp serve`, `psp migrate` and `psp healthy`.

use std::process::ExitCode;

use clap::Parser as _;
use psp::config::{Command, Program};
use psp::startup::{Application, migrate};
use service_kit::program;

#[tokio::main]
async fn main() -> ExitCode {
    let Program { telemetry, command } = Program::parse();
    program::run("psp", &telemetry, async {
        match command {
            Command::Serve(config) => {
                let shutdown = program::shutdown_on_signal()?;
                Application::build(config).await?.run_until(shutdown).await
            }
            Command::Migrate(migration) => migrate(migration).await,
            Command::Healthy(probe) => probe.ask().await,
        }
    })
    .await
}
