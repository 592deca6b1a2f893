//! Kafka delivers every message again.

use std::time::Duration;

use anyhow::Context as _;
use endpoints::Service;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode;
use sqlx::PgPool;
use testkit::eventually;

use crate::harness::{Harness, SETTLE_TIMEOUT, options};

const CONSUMERS: [Service; 4] = [
    Service::Order,
    Service::Payment,
    Service::Fulfilment,
    Service::Receipt,
];

#[tokio::test]
async fn resetting_consumer_groups_changes_nothing() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    let orders = harness.place_many(20).await?;
    harness.expect_shipped_once(&orders).await?;
    let before = snapshot(&harness).await?;

    for service in CONSUMERS {
        harness.system.stop_service(service.name()).await?;
    }
    forget_groups(&harness).await?;
    for service in CONSUMERS {
        harness.system.start_service(service.name()).await?;
        harness
            .system
            .wait_ready(service.name(), SETTLE_TIMEOUT)
            .await?;
    }
    for service in CONSUMERS {
        wait_for_duplicates(&harness, service).await?;
    }

    let more = harness.place_many(5).await?;
    harness.expect_shipped_once(&more).await?;
    harness.expect_shipped_once(&orders).await?;
    assert_eq!(snapshot_of(&harness, &orders).await?, before);
    harness.expect_mails(&orders, 1..=1)?;
    harness.expect_mails(&more, 1..=1)?;
    harness.stop().await
}

/// Deletes the groups' offsets, so that every consumer starts with the first message.
async fn forget_groups(harness: &Harness) -> anyhow::Result<()> {
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", harness.system.brokers())
        .create()?;
    let endpoints = harness.system.endpoints();
    let groups = CONSUMERS.map(|service| endpoints.group(service));
    let names: Vec<&str> = groups.iter().map(String::as_str).collect();
    // A named consumer does not leave its group. The group becomes empty when its session ends.
    eventually("every group is deleted", async || {
        let deleted = admin.delete_groups(&names, &AdminOptions::new()).await;
        let gone = |it: &Result<String, (String, RDKafkaErrorCode)>| match it {
            Ok(_) => true,
            Err((_, code)) => *code == RDKafkaErrorCode::GroupIdNotFound,
        };
        deleted.is_ok_and(|groups| groups.iter().all(gone))
    })
    .await;
    Ok(())
}

/// Waits until the consumer has skipped a message as processed. Otherwise the test proves nothing.
async fn wait_for_duplicates(harness: &Harness, service: Service) -> anyhow::Result<()> {
    let url = format!("{}/metrics", harness.system.url(service));
    let seen = async || -> anyhow::Result<bool> {
        let text = reqwest::get(&url).await?.text().await?;
        let mut lines = text
            .lines()
            .filter_map(|l| l.strip_prefix("inbox_duplicates_total "));
        Ok(lines.any(|count| count.parse().is_ok_and(|count: u64| count > 0)))
    };
    let poll = async {
        while !seen().await? {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(SETTLE_TIMEOUT, poll)
        .await
        .with_context(|| format!("{service} never skipped a duplicate"))?
}

type Row = (uuid::Uuid, String, i32);

async fn snapshot(harness: &Harness) -> anyhow::Result<Vec<Row>> {
    rows(&harness.databases.order, None).await
}

async fn snapshot_of(harness: &Harness, orders: &[uuid::Uuid]) -> anyhow::Result<Vec<Row>> {
    rows(&harness.databases.order, Some(orders)).await
}

async fn rows(pool: &PgPool, only: Option<&[uuid::Uuid]>) -> anyhow::Result<Vec<Row>> {
    let query = "select id, status, version from orders
                 where $1::uuid[] is null or id = any($1) order by id";
    Ok(sqlx::query_as(query).bind(only).fetch_all(pool).await?)
}
