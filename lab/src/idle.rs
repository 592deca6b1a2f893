//! `lab idle`: keeps a container running, so that other commands can be run in it.

use testkit::signals::StopSignals;

/// Do nothing until SIGTERM. For a container in which other commands are run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(_: Args) -> anyhow::Result<()> {
    StopSignals::listen()?.next().await;
    Ok(())
}
