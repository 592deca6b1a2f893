//! `lab idle`: a container that other commands of the lab are run in.

use testkit::signals::StopSignals;

/// Does nothing until SIGTERM; for a container that other commands are run in.
#[derive(Debug, clap::Args)]
pub struct Args {}

pub async fn run(_: Args) -> anyhow::Result<()> {
    StopSignals::listen()?.next().await;
    Ok(())
}
