//! An upgrade from the previous release, while orders come in. The tables hold rows that the old release wrote, and old
//! and new replicas work side by side.
//!
//! One of the long tests: `scripts/test.sh --long`, which builds the services of that release.

mod old_rows;
mod replicas;

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use endpoints::{PerService, Service};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use testkit::binaries::Binaries;
use testkit::broker::{self, Kafka};
use testkit::smtp_sink;

use crate::harness::{Harness, SETTLE_TIMEOUT, options};
use old_rows::{OldRows, ids, resolve_mail};
use replicas::Replicas;

/// The services that are upgraded. CHANGELOG.md says that no old receipt may run on the new tables.
const UPGRADED: [Service; 4] = [
    Service::Receipt,
    Service::Payment,
    Service::Fulfilment,
    Service::Order,
];
const SIDE_BY_SIDE: [Service; 3] = [Service::Payment, Service::Fulfilment, Service::Order];
/// Counters that both releases have.
const WORK_COUNTERS: [&str; 2] = ["inbox_processed_total", "outbox_published_total"];
/// Orders before the upgrade, and after it.
const ORDERS: usize = 20;
const OFFSETS_TIMEOUT: Duration = Duration::from_secs(10);

fn previous_release() -> anyhow::Result<PathBuf> {
    let binaries = Binaries::locate(None)?;
    let target = binaries.dir().parent().context("no target directory")?;
    let dir = target.join("previous-release/debug");
    ensure!(
        dir.is_dir(),
        "the previous release is not built: run `scripts/test.sh --long`, or `build_previous_release` of scripts/lib.sh"
    );
    Ok(dir)
}

async fn start() -> anyhow::Result<Harness> {
    let dir = previous_release()?;
    let mut options = options();
    options.kafka = Kafka::Apache;
    options.is_earlier_release = true;
    let is_upgraded = |service| UPGRADED.contains(&service);
    options.bin_dirs = PerService::from_fn(|service| is_upgraded(service).then(|| dir.clone()));
    options.replicas = PerService::from_fn(|service| if is_upgraded(service) { 2 } else { 1 });
    Harness::start(options).await
}

fn names(service: Service) -> [String; 2] {
    [service.to_string(), format!("{service}-2")]
}

/// Whether a process runs the previous release.
fn is_old(harness: &Harness, name: &str) -> anyhow::Result<bool> {
    let pid = harness.system.pid(name);
    let pid = pid.with_context(|| format!("{name} does not run"))?;
    let program = std::fs::read_link(format!("/proc/{pid}/exe"))?;
    Ok(program.starts_with(previous_release()?.canonicalize()?))
}

/// Stops an old process, and starts a new one in its place.
async fn replace(harness: &Harness, name: &str) -> anyhow::Result<()> {
    if harness.system.pid(name).is_some() {
        ensure!(is_old(harness, name)?, "{name} already runs this release");
        harness.system.stop_service(name).await?;
    }
    harness.system.upgrade(name)?;
    harness.system.start_service(name).await?;
    harness.system.wait_ready(name, SETTLE_TIMEOUT).await?;
    ensure!(!is_old(harness, name)?, "{name} runs the previous release");
    Ok(())
}

/// Waits until each replica has consumed and published since the call.
async fn expect_work_of_both(harness: &Harness) -> anyhow::Result<()> {
    let urls = harness.system.endpoints().urls;
    for service in SIDE_BY_SIDE {
        let [first, second] = names(service);
        ensure!(is_old(harness, &first)? && !is_old(harness, &second)?);
        for url in urls.get(service) {
            for metric in WORK_COUNTERS {
                let before = count(url, metric).await?;
                testkit::eventually("both replicas work", async || {
                    count(url, metric).await.is_ok_and(|now| now > before)
                })
                .await;
            }
        }
    }
    Ok(())
}

async fn count(url: &str, metric: &str) -> anyhow::Result<f64> {
    let text = reqwest::get(format!("{url}/metrics")).await?.text().await?;
    let lines = text.lines().filter(|it| it.starts_with(metric));
    let values = lines.filter_map(|it| it.rsplit(' ').next()?.parse::<f64>().ok());
    Ok(values.sum())
}

/// Numbers of offsets that a group has committed: all, and those with the checkpoint that the new release adds.
async fn offsets(harness: &Harness, service: Service) -> anyhow::Result<(usize, usize)> {
    let endpoints = harness.system.endpoints();
    let mut partitions = TopicPartitionList::new();
    for partition in 0..endpoints::topic::PARTITIONS_DEFAULT {
        partitions.add_partition(&endpoints.topic, partition);
    }
    let client: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &endpoints.brokers)
        .set("group.id", endpoints.group(service))
        .create()?;
    let read = move || client.committed_offsets(partitions, OFFSETS_TIMEOUT);
    let committed = tokio::task::spawn_blocking(read).await??;
    let elements = committed.elements();
    let is_committed = elements
        .iter()
        .filter(|it| matches!(it.offset(), Offset::Offset(_)));
    let with_checkpoint = is_committed.clone().filter(|it| !it.metadata().is_empty());
    Ok((is_committed.count(), with_checkpoint.count()))
}

/// The steps of the upgrade in CHANGELOG.md.
async fn upgrade(harness: &Harness, replicas: &Replicas, old: &OldRows) -> anyhow::Result<()> {
    let system = &harness.system;
    for name in names(Service::Receipt) {
        system.stop_service(&name).await?;
    }
    for service in UPGRADED {
        system.migrate(service).await?;
    }
    // The old services work on the new tables.
    replicas.replay_all(&old.answered).await?;
    replicas.replay(&old.with_reference).await?;
    replicas.expect_found(&old.with_reference).await?;
    system.resume(broker::PROCESS_NAME)?;
    for name in names(Service::Receipt) {
        replace(harness, &name).await?;
    }
    for service in SIDE_BY_SIDE {
        replace(harness, &names(service)[1]).await?;
    }

    system.start_service(Service::Psp.name()).await?;
    system.start_service(smtp_sink::PROCESS_NAME).await?;
    expect_work_of_both(harness).await?;
    for order in &old.orders {
        harness
            .client
            .wait_for_status(*order, "shipped", SETTLE_TIMEOUT)
            .await
            .context("with replicas of both releases")?;
    }
    replicas.replay_all(&old.answered).await?;
    replicas.replay(&old.with_reference).await?;
    replicas.expect_found(&old.with_reference).await?;

    for service in SIDE_BY_SIDE {
        replace(harness, &names(service)[0]).await?;
    }
    Ok(())
}

/// What holds before the upgrade: otherwise the test would prove nothing.
async fn expect_old(harness: &Harness) -> anyhow::Result<()> {
    for service in UPGRADED {
        for name in names(service) {
            ensure!(is_old(harness, &name)?, "{name} already runs this release");
        }
        testkit::eventually("offsets are committed", async || {
            offsets(harness, service).await.is_ok_and(|it| it.0 > 0)
        })
        .await;
        ensure!(
            offsets(harness, service).await?.1 == 0,
            "{service} already runs this release"
        );
    }
    let new = "select count(*) from _sqlx_migrations where version in (9, 10, 104)";
    harness.wait_for_count(Service::Order, new, 0).await?;
    let new = "select count(*) from _sqlx_migrations where version in (9, 107)";
    harness.wait_for_count(Service::Receipt, new, 0).await
}

async fn expect_upgraded(harness: &Harness) -> anyhow::Result<()> {
    for service in UPGRADED {
        for name in names(service) {
            ensure!(!is_old(harness, &name)?, "{name} runs the previous release");
            ensure!(harness.system.restarts(&name) == 0, "{name} died");
        }
        // A partition without a new message keeps the offset that the old release committed.
        testkit::eventually("offsets have checkpoints", async || {
            offsets(harness, service).await.is_ok_and(|it| it.1 > 0)
        })
        .await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgrade_under_load_charges_and_mails_once() -> anyhow::Result<()> {
    let harness = start().await?;
    let replicas = Replicas::of(&harness)?;
    let first = harness.place_many(ORDERS).await?;
    harness.expect_shipped_once(&first).await?;
    expect_old(&harness).await?;
    let old = OldRows::create(&harness, &replicas).await?;

    let stopped = Cell::new(false);
    let upgraded = async {
        upgrade(&harness, &replicas, &old).await?;
        stopped.set(true);
        anyhow::Ok(())
    };
    let (placed, ()) = tokio::try_join!(replicas.load(&stopped), upgraded)?;

    let after = harness.place_many(ORDERS).await?;

    // The same decision again, from before the upgrade, and a new one about a mail from before it.
    resolve_mail(&harness, old.mail_resolved).await?;
    resolve_mail(&harness, old.mail_failed).await?;
    let orders = [first, old.orders, ids(&placed)?, after].concat();
    harness.expect_shipped_once(&orders).await?;
    harness.expect_shipped_once(&[old.paid_again]).await?;
    ensure!(harness.books(old.refunded).await? == (1, 1));
    harness.expect_mails(&orders, 1..=1)?;
    harness.expect_subjects(old.paid_again, &["Payment declined", "Your receipt"])?;
    harness.expect_subjects(old.refunded, &["Your receipt", "Your refund"])?;
    replicas.replay_all(&old.answered).await?;
    replicas.replay_all(&placed).await?;
    expect_upgraded(&harness).await?;
    harness.stop().await
}
