//! A private Postgres cluster, created with the installed binaries and removed afterwards.

pub mod database;
mod install;
pub mod literals;
pub mod pages;
pub mod template;

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::process::{Signal, geteuid};

use crate::process::Spec;
use crate::scratch::Scratch;
use crate::supervisor::Supervisor;
use crate::{ports, readiness};
use install::Install;

/// The name of the process under its supervisor.
pub const PROCESS_NAME: &str = "postgres";
/// Postgres refuses to run as root. Its package creates this user.
const SYSTEM_USER: &str = "postgres";
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Settings that differ from the defaults of Postgres. The first two are defaults that make a commit
/// durable and must stay on: without them a crash test proves nothing.
const SETTINGS: [(&str, &str); 9] = [
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("listen_addresses", "127.0.0.1"),
    // A socket file would need a short path in a directory that both users may write to.
    ("unix_socket_directories", ""),
    // Several systems of a test run share one server.
    ("max_connections", "1000"),
    ("shared_buffers", "256MB"),
    // Few checkpoints: a checkpoint would distort a measurement.
    ("max_wal_size", "4GB"),
    ("checkpoint_timeout", "15min"),
    ("log_checkpoints", "off"),
];

/// For [`pages::PageCount`]. Every test has its own databases, so there are many statements.
const STATISTICS: [(&str, &str); 2] = [
    ("shared_preload_libraries", "pg_stat_statements"),
    ("pg_stat_statements.max", "50000"),
];

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    port: u16,
}

impl Cluster {
    /// Initialises a cluster and starts it on a loopback port; logs go to `log_dir`.
    pub async fn start(
        supervisor: &Supervisor,
        log_dir: &Path,
        port: Option<u16>,
    ) -> anyhow::Result<Cluster> {
        let install = Install::find()?;
        let scratch = Arc::new(Scratch::new()?);
        let data = data_dir(&scratch)?;
        initialise(&install, &data, log_dir).await?;
        let port = port.map_or_else(ports::free, Ok)?;
        let cluster = Cluster { port };
        let log = log_dir.join("postgres.log");
        let mut spec = Spec::new(install.program("postgres"), &log)
            .args(["-D".into(), data.into_os_string()])
            .args(["-p".to_owned(), port.to_string()]);
        let statistics = install.has_library("pg_stat_statements");
        for (name, value) in SETTINGS
            .into_iter()
            .chain(STATISTICS.into_iter().filter(|_| statistics))
        {
            spec = spec.args(["-c".to_owned(), format!("{name}={value}")]);
        }
        spec.files = Some(scratch);
        spec.user = Some(SYSTEM_USER);
        // Immediate shutdown, without a checkpoint: the files are removed next. After a test run a
        // checkpoint would sync the files of hundreds of databases. A restart recovers from the log.
        spec.stop_signal = Signal::QUIT;
        spec.abrupt_signal = Signal::QUIT;
        supervisor.start(PROCESS_NAME, spec, &[])?;

        let url = cluster.url("postgres");
        readiness::wait(supervisor, PROCESS_NAME, &log, START_TIMEOUT, || async {
            database::ping(&url).await
        })
        .await?;
        Ok(cluster)
    }

    /// The URL of one of its databases, with the superuser role.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Creates an empty database.
    pub async fn create_database(&self, name: &str) -> anyhow::Result<()> {
        database::create(&self.url("postgres"), name).await
    }

    /// Stops the cluster. Its files are removed with the supervisor.
    pub async fn stop(self, supervisor: &Supervisor) -> anyhow::Result<()> {
        supervisor.stop(PROCESS_NAME).await
    }
}

/// A directory in the scratch directory, owned by the user that runs Postgres.
fn data_dir(scratch: &Scratch) -> anyhow::Result<PathBuf> {
    let data = scratch.path().join("data");
    std::fs::create_dir(&data)?;
    std::fs::set_permissions(&data, PermissionsExt::from_mode(0o700))?;
    if geteuid().is_root() {
        // The other user may pass through this directory, but not list it.
        std::fs::set_permissions(scratch.path(), PermissionsExt::from_mode(0o711))?;
        chown(&data, Some(system_user_id()?), None)?;
    }
    Ok(data)
}

async fn initialise(install: &Install, data: &Path, log_dir: &Path) -> anyhow::Result<()> {
    let mut initdb = Spec::new(install.program("initdb"), log_dir.join("initdb.log"))
        // No passwords: only this machine can connect, and the data is temporary.
        .args(["--auth=trust", "--username=postgres"])
        .args(["--encoding=UTF8", "--no-locale"])
        // Before the first start there is nothing to lose in a power failure.
        .args(["--no-sync", "--no-instructions"])
        .args(["-D".into(), data.as_os_str().to_owned()]);
    initdb.user = Some(SYSTEM_USER);
    readiness::run_once("initdb", &initdb).await
}

fn system_user_id() -> anyhow::Result<u32> {
    let output = Command::new("id").args(["-u", SYSTEM_USER]).output()?;
    ensure!(
        output.status.success(),
        "Postgres refuses to run as root, and the user `{SYSTEM_USER}` does not exist: install \
         Postgres from a package, or run the lab as another user"
    );
    let text = String::from_utf8(output.stdout)?;
    text.trim()
        .parse()
        .context("`id -u` did not print a number")
}
