//! A mail server for the lab: takes every mail and keeps it as a file.
//!
//! It speaks enough ESMTP for any client, and can be told to lose answers or to refuse. It has no
//! memory of what it was sent before: like a real one, it takes the same mail twice.

pub mod behaviour;
mod mails;
mod session;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args as ClapArgs;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use crate::binaries::Binaries;
use crate::process::Spec;
use crate::readiness;
use crate::supervisor::Supervisor;
use behaviour::Switch;

pub use behaviour::{Action, Behaviour};
pub use mails::{Mail, mails};

/// The name of the sink's process under its supervisor.
pub const PROCESS_NAME: &str = "smtp";
/// The port that `lab up` and the documents use.
pub const DEMO_PORT: u16 = 8025;
const START_TIMEOUT: Duration = Duration::from_secs(15);

/// Runs the mail sink until SIGTERM; the lab's own, not for users.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Where to listen.
    #[arg(long)]
    listen: SocketAddr,
    /// Where the mails go.
    #[arg(long)]
    mails_dir: PathBuf,
}

/// The sink's process.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let mut terminated = signal(SignalKind::terminate())?;
    let listener = TcpListener::bind(args.listen)
        .await
        .with_context(|| format!("binding {}", args.listen))?;
    tokio::select! {
        ended = serve(listener, args.mails_dir) => ended,
        _ = terminated.recv() => Ok(()),
    }
}

/// Takes mails for as long as it is polled.
pub async fn serve(listener: TcpListener, mails_dir: PathBuf) -> anyhow::Result<()> {
    std::fs::create_dir_all(&mails_dir)
        .with_context(|| format!("cannot create {}", mails_dir.display()))?;
    let switch = Arc::new(Switch::new(mails_dir));
    // Dropped with this function, and the connections with them.
    let mut sessions = JoinSet::new();
    loop {
        let (stream, _) = tokio::select! {
            accepted = listener.accept() => accepted.context("accepting")?,
            Some(_) = sessions.join_next() => continue,
        };
        let switch = Arc::clone(&switch);
        // A client that breaks off is its own affair.
        sessions.spawn(async move { session::attend(stream, &switch).await });
    }
}

/// Starts the process and returns once it listens.
pub(crate) async fn start(
    supervisor: &Supervisor,
    binaries: &Binaries,
    log_dir: &Path,
    address: &str,
    mails_dir: &Path,
) -> anyhow::Result<()> {
    let log = log_dir.join(format!("{PROCESS_NAME}.log"));
    let spec = Spec::new(binaries.path("lab")?, &log).args([
        "smtp-sink".into(),
        "--listen".into(),
        address.into(),
        "--mails-dir".into(),
        mails_dir.as_os_str().to_owned(),
    ]);
    supervisor.start(PROCESS_NAME, spec, &[])?;
    readiness::wait(supervisor, PROCESS_NAME, &log, START_TIMEOUT, async || {
        TcpStream::connect(address).await?;
        Ok(())
    })
    .await
}
