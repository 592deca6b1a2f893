//! The mock provider's program: `psp [serve]` or `psp migrate`.

use std::process::ExitCode;

use clap::Parser as _;
use psp::config::{Command, Program, Settings};
use psp::startup::Application;
use service_kit::{migration, program};

#[tokio::main]
async fn main() -> ExitCode {
    let Program { settings, command } = Program::parse();
    let telemetry = settings.telemetry.0.clone();
    program::run("psp", &telemetry, async {
        match command.unwrap_or(Command::Serve) {
            Command::Serve => serve(settings).await,
            Command::Migrate => {
                let database_url = &settings.database.0.database_url;
                migration::run(database_url, vec![psp::store::migrator()]).await
            }
        }
    })
    .await
}

async fn serve(settings: Settings) -> anyhow::Result<()> {
    let shutdown = program::shutdown_on_signal()?;
    let application = Application::build(settings).await?;
    tracing::info!(port = application.port(), "listening");
    application.run_until(shutdown).await
}
