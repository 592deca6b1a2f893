//! `price`: orders per second of the whole, relative to the same services built with the feature `unprotected`, which
//! store no key, no outbox row and no processed message, and lease nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use endpoints::{PerService, Service, database};
use service_kit::unprotected::{MEANT, SETTING};
use testkit::binaries::Binaries;
use testkit::broker::Kafka;
use testkit::system::Postgres;

use super::costs;
use super::rig::{MIX_WITHOUT_REPEATS, Place, Rig, closed_loop};
use super::steps::Bench;
use crate::generator::drive::Plan;

/// The services that have the feature.
const SERVICES: [Service; 4] = [
    Service::Order,
    Service::Payment,
    Service::Fulfilment,
    Service::Receipt,
];
/// The tables that stay empty in a system without protection.
const EMPTY_TABLES: [(Service, &str); 8] = [
    (Service::Order, "idempotency_keys"),
    (Service::Order, "outbox"),
    (Service::Order, "processed_messages"),
    (Service::Payment, "outbox"),
    (Service::Payment, "processed_messages"),
    (Service::Fulfilment, "outbox"),
    (Service::Fulfilment, "processed_messages"),
    (Service::Receipt, "processed_messages"),
];

/// The services that lease rows.
const LEASING: [Service; 2] = [Service::Payment, Service::Receipt];
/// Calls of the statements that lease rows. Nothing else writes lease tokens to rows that it locks and skips.
const LEASES: &str = "select coalesce(sum(calls), 0)::bigint from pg_stat_statements
    where dbid = (select oid from pg_database where datname = current_database())
      and query like '%lease_token = %' and query like '%for update skip locked%' /* lab */";

pub(super) struct Price {
    pub(super) pairs: Vec<(f64, f64)>,
    /// Orders of both systems. Each has exactly one charge.
    pub(super) orders: u64,
}

/// The directory of the unprotected services: the given one, or the one that scripts/bench.sh fills, beside the directory
/// of this program. Fails if one of them is missing or is protected.
pub(super) fn find(dir: Option<&Path>) -> anyhow::Result<PathBuf> {
    let dir = match dir {
        Some(dir) => dir.to_owned(),
        None => default_dir(Binaries::locate(None)?.dir())?,
    };
    for service in SERVICES {
        let path = dir.join(service.name());
        ensure!(
            path.is_file(),
            "the unprotected services are not built: {} is missing; run scripts/bench.sh, or name their directory with \
             --unprotected-binaries",
            path.display()
        );
        ensure!(
            is_unprotected(&path)?,
            "{} is not built with the feature `unprotected`: the ratio would compare the services with themselves",
            path.display()
        );
    }
    Ok(dir)
}

/// Whether the program says that it needs [`SETTING`]. It checks that before it does anything.
fn is_unprotected(program: &Path) -> anyhow::Result<bool> {
    let mut command = Command::new(program);
    command.args(["healthy", "--listen", "127.0.0.1:1"]);
    let output = command.env_remove(SETTING).output();
    let output = output.with_context(|| format!("cannot run {}", program.display()))?;
    let error = String::from_utf8_lossy(&output.stderr);
    Ok(!output.status.success() && error.contains(SETTING))
}

/// `target/unprotected/release` for `target/release`.
fn default_dir(dir: &Path) -> anyhow::Result<PathBuf> {
    let (Some(target), Some(profile)) = (dir.parent(), dir.file_name()) else {
        anyhow::bail!("{} is not a directory that cargo fills", dir.display());
    };
    Ok(target.join("unprotected").join(profile))
}

/// Steps of [`measure`].
pub(super) fn steps(pairs: usize, warms_up: bool) -> usize {
    2 * pairs + 3 + if warms_up { 2 } else { 0 }
}

/// Compares two new systems on the servers of the bench, so that neither has older tables than the other.
pub(super) async fn measure(bench: &Bench<'_>, unprotected: &Path) -> anyhow::Result<Price> {
    let Bench {
        rig, scale, steps, ..
    } = *bench;
    steps.phase("price");
    let stopped = rig.stop_consumers();
    steps.step("stopping the other services", stopped).await?;
    let place = |prefix: &str| Place {
        kafka: Kafka::Existing(rig.system().brokers().to_owned()),
        postgres: Postgres::Existing(rig.order_url().to_owned()),
        prefix: prefix.to_owned(),
        bin_dirs: PerService::default(),
        env: Vec::new(),
        quiet: true,
    };
    let whole = Rig::start(place("whole-"));
    let whole = steps.step("starting a new system", whole).await?;
    let mut without = place("unprotected-");
    for service in SERVICES {
        *without.bin_dirs.get_mut(service) = Some(unprotected.to_owned());
    }
    without.env = vec![(SETTING.to_owned(), MEANT.to_owned())];
    let without = Rig::start(without);
    let without = steps.step("starting it unprotected", without).await?;

    let plan = |duration| Plan {
        mix: MIX_WITHOUT_REPEATS,
        ..closed_loop(scale.clients, duration)
    };
    if scale.warm_up_s > 0 {
        for (name, rig) in [("warm-up", &whole), ("warm-up, unprotected", &without)] {
            steps.step(name, rig.run(plan(scale.warm_up()))).await?;
        }
    }
    let ship = async |rig: &Rig| {
        let run = rig.run(plan(scale.end_to_end())).await?;
        Ok(run.arrived_per_s())
    };
    let pairs = bench
        .interleave(
            scale.pairs,
            ("shipping orders", async || ship(&whole).await),
            ("shipping orders, unprotected", async || {
                ship(&without).await
            }),
        )
        .await?;
    ensure_nothing_stored(&without).await?;
    ensure_nothing_leased(&whole, &without).await?;
    let orders = whole.check_books().await? + without.check_books().await?;
    without.stop().await?;
    whole.stop().await?;
    Ok(Price { pairs, orders })
}

/// Fails if the system has stored what it should lack.
async fn ensure_nothing_stored(rig: &Rig) -> anyhow::Result<()> {
    for (service, table) in EMPTY_TABLES {
        let pool = database::connect(rig.system().database_url(service)).await?;
        let query = sqlx::AssertSqlSafe(format!("select exists (select from {table}) /* lab */"));
        let has_rows: bool = sqlx::query_scalar(query)
            .fetch_one(&pool)
            .await
            .with_context(|| format!("reading {table} of {service}"))?;
        ensure!(!has_rows, "the unprotected {service} has rows in {table}");
    }
    Ok(())
}

/// Fails if the unprotected system has leased rows, or tried to. The other one shows that this would be noticed.
async fn ensure_nothing_leased(whole: &Rig, without: &Rig) -> anyhow::Result<()> {
    for service in LEASING {
        ensure!(
            leases(whole, service).await? > 0,
            "pg_stat_statements has no call of the statement with which {service} leases rows: adapt LEASES in \
             lab/src/bench/price.rs to the statement"
        );
        let leases = leases(without, service).await?;
        ensure!(
            leases == 0,
            "the unprotected {service} has called the statement that leases rows {leases} times"
        );
    }
    Ok(())
}

async fn leases(rig: &Rig, service: Service) -> anyhow::Result<i64> {
    let pool = database::connect(rig.system().database_url(service)).await?;
    costs::install_statements(&mut *pool.acquire().await?).await?;
    let leases = sqlx::query_scalar(LEASES).fetch_one(&pool).await;
    leases.with_context(|| format!("counting the leases of {service}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unprotected_services_are_beside_the_protected_ones() {
        let dir = default_dir(Path::new("/src/target/release")).unwrap();
        assert_eq!(dir, Path::new("/src/target/unprotected/release"));
    }
}
