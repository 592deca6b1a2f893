//! `fulfilment serve`, `fulfilment migrate`, `fulfilment recall` and `fulfilment healthy`.

use std::process::ExitCode;

use clap::Parser as _;
use fulfilment::config::{Command, Program};
use fulfilment::recall::{Recalled, recall};
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
            Command::Recall(settings) => print(&recall(&settings).await?),
            Command::Healthy(probe) => probe.ask().await,
        }
    })
    .await
}

/// A command prints to the console.
#[allow(clippy::print_stdout)]
fn print(recalled: &Recalled) -> anyhow::Result<()> {
    print!("{recalled}");
    anyhow::ensure!(
        recalled.contradictions.is_empty(),
        "topic and database contradict each other: see docs/restore.md"
    );
    Ok(())
}
