//! The limit of the machine: pgbench runs the order service's intake statement, one order per commit,
//! in a scratch database on the same server. The service's throughput is reported as a ratio to it.

mod script;

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use tokio::process::Command;

use super::report::SqlLimit;
use super::target::Target;
use super::usage::Meters;
use endpoints::Service;
use testkit::binaries::{self, Binaries};
use testkit::postgres::database;

/// Debian keeps the server's programs here, one directory per version.
const PACKAGE_DIR: &str = "/usr/lib/postgresql";

/// pgbench takes one of this many free connections, and leaves the others to the services.
const FREE_CONNECTIONS_PER_CLIENT: i64 = 2;

/// How many clients of pgbench the server has connections for. At least one: a server without any says
/// so itself.
pub(super) async fn clients_max(target: &Target) -> anyhow::Result<usize> {
    let orders = endpoints::database::connect(target.database_url(Service::Order)).await?;
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

/// Runs pgbench in a scratch database, which is dropped afterwards even if pgbench fails.
pub(super) async fn run(target: &Target, clients: usize, seconds: u64) -> anyhow::Result<SqlLimit> {
    let order_url = target.database_url(Service::Order);
    let name = scratch_name(order_url)?;
    database::drop_now(order_url, &name).await?;
    database::create(order_url, &name).await?;
    let measured = measure(target, &database::url(order_url, &name)?, clients, seconds).await;
    let dropped = database::drop_now(order_url, &name).await;
    let limit = measured?;
    dropped?;
    Ok(limit)
}

async fn measure(
    target: &Target,
    database_url: &str,
    clients: usize,
    seconds: u64,
) -> anyhow::Result<SqlLimit> {
    migrate(database_url).await?;
    let script =
        tempfile::NamedTempFile::new().context("creating a file for the pgbench script")?;
    std::fs::write(script.path(), script::intake()?).context("writing the pgbench script")?;
    let mut meters = Meters::default();
    meters.sample(&target.pids());
    let output = Command::new(program()?)
        // -n: no vacuum, these are not pgbench's tables. -j 1: one thread, like the load generator.
        .args(["-n", "-M", "prepared", "-j", "1"])
        .args(["-c", &clients.to_string(), "-T", &seconds.to_string()])
        .arg("-f")
        .arg(script.path())
        .arg(database_url)
        .output()
        .await
        .context("running pgbench")?;
    meters.sample(&target.pids());
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!(
            "pgbench failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let cpu_s = meters
        .usage()
        .iter()
        .find(|usage| usage.name == "postgres")
        .map_or(0.0, |usage| usage.cpu_s);
    Ok(SqlLimit {
        clients,
        tps: figure(&text, "tps = ")?,
        latency_ms: figure(&text, "latency average = ")?,
        cpu_s,
        seconds,
    })
}

async fn migrate(database_url: &str) -> anyhow::Result<()> {
    let order = Binaries::locate(None)?.path(Service::Order.name())?;
    let output = Command::new(order)
        .arg("migrate")
        .env("DATABASE_URL", database_url)
        .output()
        .await
        .context("running the order service's migrations")?;
    ensure!(
        output.status.success(),
        "migrating the scratch database failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn scratch_name(order_url: &str) -> anyhow::Result<String> {
    let url = reqwest::Url::parse(order_url).context("the order database's URL cannot be read")?;
    let name = url.path().trim_start_matches('/');
    ensure!(
        !name.is_empty(),
        "the order database's URL names no database"
    );
    Ok(format!("{name}_limit"))
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
