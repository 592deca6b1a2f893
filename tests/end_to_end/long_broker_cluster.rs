//! Three Kafka nodes with three copies of every message, and several replicas of each service. Each node is killed once
//! under load, and stays down while orders come in.
//!
//! One of the long tests: `scripts/test.sh --long`.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use endpoints::{PerService, Service, topic};
use testkit::broker::Kafka;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::harness::{Harness, SETTLE_TIMEOUT, options};

const NODES: [&str; 3] = ["kafka", "kafka-2", "kafka-3"];
const ORDERS: usize = 40;
const METADATA_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(200);

async fn start(replicas: u32) -> anyhow::Result<Harness> {
    let mut options = options();
    options.kafka = Kafka::ApacheCluster;
    // A killed node comes back when the test starts it, not earlier.
    options.restart = false;
    let of = |service| if service == Service::Psp { 1 } else { replicas };
    options.replicas = PerService::from_fn(of);
    Harness::start(options).await
}

/// For each partition of the topic, how many copies it has and how many of them are up to date.
async fn copies(harness: &Harness) -> anyhow::Result<Vec<(usize, usize)>> {
    let admin = topic::admin(harness.system.brokers())?;
    let name = harness.system.topic().to_owned();
    let fetch = move || {
        let metadata = admin
            .inner()
            .fetch_metadata(Some(&name), METADATA_TIMEOUT)?;
        let topics = metadata.topics().iter();
        let partitions = topics.flat_map(|topic| topic.partitions());
        let copies = partitions.map(|it| (it.replicas().len(), it.isr().len()));
        anyhow::Ok(copies.collect())
    };
    tokio::task::spawn_blocking(fetch).await?
}

/// Waits until every partition has this many copies that are up to date.
async fn wait_in_sync(harness: &Harness, count: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + SETTLE_TIMEOUT;
    loop {
        let copies = copies(harness).await.unwrap_or_default();
        if !copies.is_empty() && copies.iter().all(|it| *it == (3, count)) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "not {count} in sync: {copies:?}");
        sleep(POLL).await;
    }
}

/// Kills a node while orders come in. The orders ship without it.
async fn kill_under_load(harness: &Harness, node: &str) -> anyhow::Result<Vec<Uuid>> {
    let charges = "select count(*) from charges";
    let charges = async || -> anyhow::Result<i64> {
        let count = sqlx::query_scalar(charges).fetch_one(&harness.databases.psp);
        Ok(count.await?)
    };
    let before = charges().await?;
    let kill = async {
        // Some of the orders are in the middle of their way.
        while charges().await? == before {
            sleep(Duration::from_millis(5)).await;
        }
        harness.system.kill(node).await
    };
    let (placed, killed) = tokio::join!(harness.place_many(ORDERS), kill);
    killed?;
    let mut orders = placed?;
    wait_in_sync(harness, 2).await?;
    orders.extend(harness.place_many(ORDERS).await?);
    for order in &orders {
        let shipped = harness
            .client
            .wait_for_status(*order, "shipped", SETTLE_TIMEOUT);
        shipped.await.with_context(|| format!("without {node}"))?;
    }
    ensure!(harness.system.pid(node).is_none(), "{node} runs");
    Ok(orders)
}

async fn every_node_dies_once(replicas: u32) -> anyhow::Result<()> {
    let harness = start(replicas).await?;
    wait_in_sync(&harness, 3).await?;
    let mut orders = harness.place_many(ORDERS).await?;
    for node in NODES {
        orders.extend(kill_under_load(&harness, node).await?);
        harness.system.start_service(node).await?;
        wait_in_sync(&harness, 3).await?;
    }
    ensure!(orders.len() == ORDERS * (1 + 2 * NODES.len()));
    harness.expect_shipped_once(&orders).await?;
    harness.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_replicas_charge_once_when_brokers_die() -> anyhow::Result<()> {
    every_node_dies_once(2).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_replicas_charge_once_when_brokers_die() -> anyhow::Result<()> {
    every_node_dies_once(4).await
}
