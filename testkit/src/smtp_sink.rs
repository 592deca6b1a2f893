//! A mail server that accepts every mail and appends it to a file.
//!
//! It implements enough ESMTP for common clients, and can lose replies or reject mails on request.
//! Like a real server, it accepts the same mail twice.

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
use behaviour::Faults;

pub use behaviour::{Action, Behaviour};
pub use mails::{MAILBOX_NAME, Mail, mails};

/// The name of the sink's process under its supervisor.
pub const PROCESS_NAME: &str = "smtp";
/// The port that `lab up` uses and the documentation names.
pub(crate) const DEMO_PORT: u16 = 8025;
const START_TIMEOUT: Duration = Duration::from_secs(15);

/// Run the mail sink until SIGTERM. The lab starts it; not for users.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// Address to listen on.
    #[arg(long)]
    listen: SocketAddr,
    /// Directory for the mails.
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

/// Accepts mails until it is dropped.
pub async fn serve(listener: TcpListener, mails_dir: PathBuf) -> anyhow::Result<()> {
    std::fs::create_dir_all(&mails_dir)
        .with_context(|| format!("cannot create {}", mails_dir.display()))?;
    let faults = Arc::new(Faults::new(mails_dir));
    // Dropping the set closes the connections.
    let mut sessions = JoinSet::new();
    loop {
        let (stream, _) = tokio::select! {
            accepted = listener.accept() => accepted.context("accepting a connection")?,
            Some(_) = sessions.join_next() => continue,
        };
        let faults = Arc::clone(&faults);
        // A client that disconnects is not an error of the sink.
        sessions.spawn(async move { session::serve(stream, &faults).await });
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
    readiness::wait(supervisor, PROCESS_NAME, &log, START_TIMEOUT, || async {
        TcpStream::connect(address).await?;
        Ok(())
    })
    .await
}
