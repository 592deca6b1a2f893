//! The limit of the machine: pgbench runs the order service's intake statement, one order per commit,
//! in a scratch database on the same server. The service's throughput is reported as a ratio to it.

mod script;

use std::path::PathBuf;

use anyhow::{Context, bail};
use serde::Serialize;
use tempfile::NamedTempFile;
use tokio::process::Command;

use super::scratch_database::ScratchDatabase;
use super::usage::{Meters, POSTGRES};
use testkit::binaries;

/// Debian keeps the server's programs here, one directory per version.
const PACKAGE_DIR: &str = "/usr/lib/postgresql";

/// pgbench takes one of this many free connections, and leaves the others to the services.
const FREE_CONNECTIONS_PER_CLIENT: i64 = 2;

/// pgbench with the order service's intake statement, one order per commit.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SqlLimit {
    pub(crate) clients: usize,
    pub(crate) tps: f64,
    pub(crate) latency_ms: f64,
    pub(crate) cpu_s: f64,
    pub(crate) seconds: u64,
}

/// How many clients of pgbench the server has connections for. At least one: a server without any says
/// so itself.
pub(crate) async fn clients_max(order_url: &str) -> anyhow::Result<usize> {
    let orders = endpoints::database::connect(order_url).await?;
    let free: i64 = sqlx::query_scalar(
        "select current_setting('max_connections')::bigint
              - current_setting('superuser_reserved_connections')::bigint
              - (select count(*) from pg_stat_activity where backend_type = 'client backend')",
    )
    .fetch_one(&orders)
    .await
    .context("reading the number of free connections")?;
    let clients = free / FREE_CONNECTIONS_PER_CLIENT;
    Ok(usize::try_from(clients).unwrap_or(0).max(1))
}

/// The intake statement, ready to run in its scratch database.
pub(crate) struct IntakeSql {
    database: ScratchDatabase,
    script: NamedTempFile,
}

impl IntakeSql {
    pub(crate) async fn prepare(order_url: &str) -> anyhow::Result<Self> {
        let script = NamedTempFile::new().context("creating a file for the pgbench script")?;
        std::fs::write(script.path(), script::intake()?).context("writing the pgbench script")?;
        let database = ScratchDatabase::create(order_url, "limit").await?;
        Ok(Self { database, script })
    }

    /// `pids`: the processes of the system, to measure the CPU time of Postgres.
    pub(crate) async fn run(
        &self,
        pids: &[(String, u32)],
        clients: usize,
        seconds: u64,
    ) -> anyhow::Result<SqlLimit> {
        let mut meters = Meters::default();
        meters.sample(pids);
        let output = Command::new(program()?)
            // -n: no vacuum, these are not pgbench's tables. -j 1: one thread, like the load generator.
            .args(["-n", "-M", "prepared", "-j", "1"])
            .args(["-c", &clients.to_string(), "-T", &seconds.to_string()])
            .arg("-f")
            .arg(self.script.path())
            .arg(&self.database.url)
            .kill_on_drop(true)
            .output()
            .await
            .context("running pgbench")?;
        meters.sample(pids);
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            bail!(
                "pgbench failed: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let usage = meters.usage();
        let postgres = usage.iter().find(|usage| usage.name == POSTGRES);
        Ok(SqlLimit {
            clients,
            tps: figure(&text, "tps = ")?,
            latency_ms: figure(&text, "latency average = ")?,
            cpu_s: postgres.map_or(0.0, |usage| usage.cpu_s),
            seconds,
        })
    }

    /// Drops the scratch database.
    pub(crate) async fn discard(self) -> anyhow::Result<()> {
        self.database.discard().await
    }
}

/// Prefers the server's package: `pgbench` in PATH may be a wrapper of another version.
fn program() -> anyhow::Result<PathBuf> {
    let packages = std::fs::read_dir(PACKAGE_DIR)
        .into_iter()
        .flatten()
        .flatten();
    let newest = packages
        .map(|entry| entry.path().join("bin/pgbench"))
        .filter(|path| path.is_file())
        .max();
    newest
        .or_else(|| binaries::in_path("pgbench"))
        .context("pgbench is not installed: install it, or pass --no-pgbench")
}

/// The number after a label in pgbench's report.
fn figure(text: &str, label: &str) -> anyhow::Result<f64> {
    text.split_once(label)
        .and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok())
        .with_context(|| format!("no \"{label}\" in pgbench's report: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_pgbench_report() {
        let text = "latency average = 8.005 ms\ninitial connection time = 4 ms\ntps = 3997.4 (without initial connection time)\n";
        assert_eq!(figure(text, "tps = ").unwrap(), 3997.4);
        assert_eq!(figure(text, "latency average = ").unwrap(), 8.005);
        assert!(figure("", "tps = ").is_err());
    }
}
