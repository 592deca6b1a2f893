//! Kafka loses all its data, or the end of one partition.

use std::time::Duration;

use endpoints::Service;
use reqwest::Method;
use serde_json::json;
use testkit::broker::Kafka;
use uuid::Uuid;

use crate::harness::{Harness, SETTLE_TIMEOUT, options};

/// The services that publish events.
const PUBLISHERS: [Service; 3] = [Service::Order, Service::Payment, Service::Fulfilment];
/// Counts losses that a service noticed.
const DATA_LOSSES: &str = "outbox_data_losses_total";

/// Makes every service republish the events of the last hour; returns their number.
async fn republish(harness: &Harness) -> anyhow::Result<i64> {
    let since = json!({ "since": hour_ago() });
    let mut events = 0;
    for service in PUBLISHERS {
        let (path, since) = ("/admin/outbox/republish", Some(since.clone()));
        let response = harness.operate(service, Method::POST, path, since).await?;
        events += response["republished"].as_i64().unwrap_or_default();
    }
    Ok(events)
}

fn hour_ago() -> String {
    (chrono::Utc::now() - chrono::TimeDelta::hours(1)).to_rfc3339()
}

async fn published(harness: &Harness) -> anyhow::Result<i64> {
    let count = "select count(*) from outbox where published_at is not null";
    Ok(sqlx::query_scalar(count)
        .fetch_one(&harness.databases.order)
        .await?)
}

/// Orders in each stage, and the services that have not read their last events stopped.
struct Stages {
    shipped: Vec<Uuid>,
    paid: Vec<Uuid>,
    placed: Vec<Uuid>,
}

impl Stages {
    /// Two kinds of open orders: paid but not read by fulfilment, and placed but not read by payment.
    async fn reach(harness: &Harness) -> anyhow::Result<Self> {
        let shipped = harness.place_many(10).await?;
        harness.expect_shipped_once(&shipped).await?;
        let fulfilment = Service::Fulfilment.name();
        harness.system.stop_service(fulfilment).await?;
        let paid = harness.place_many(10).await?;
        for order in &paid {
            let paid = harness
                .client
                .wait_for_status(*order, "paid", SETTLE_TIMEOUT);
            paid.await?;
        }
        harness.system.stop_service(Service::Payment.name()).await?;
        let placed = harness.place_many(10).await?;
        let wait = async {
            while published(harness).await? < 30 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(SETTLE_TIMEOUT, wait).await??;
        Ok(Self {
            shipped,
            paid,
            placed,
        })
    }

    /// Starts the stopped services. No operator acts: the services notice the loss, and publish their events
    /// again. Returns all orders, with some that were placed after the loss.
    async fn heal(self, harness: &Harness) -> anyhow::Result<Vec<Uuid>> {
        for service in [Service::Payment, Service::Fulfilment] {
            harness.system.start_service(service.name()).await?;
            let ready = harness.system.wait_ready(service.name(), SETTLE_TIMEOUT);
            ready.await?;
        }
        let after = harness.place_many(5).await?;
        let all: Vec<Uuid> = [self.shipped, self.paid, self.placed, after].concat();
        for order in &all {
            harness
                .client
                .wait_for_status(*order, "shipped", SETTLE_TIMEOUT)
                .await?;
        }
        harness.expect_shipped_once(&all).await?;
        Ok(all)
    }
}

async fn start_with_apache() -> anyhow::Result<Harness> {
    let mut options = options();
    options.kafka = Kafka::Apache;
    Harness::start(options).await
}

#[tokio::test]
async fn broker_data_loss_is_healed_by_the_services() -> anyhow::Result<()> {
    let harness = start_with_apache().await?;
    let stages = Stages::reach(&harness).await?;
    harness.system.lose_broker_data().await?;
    let all = stages.heal(&harness).await?;
    // A republication by an operator changes nothing.
    assert!(
        republish(&harness).await? >= 30,
        "there was nothing to republish"
    );
    harness.expect_shipped_once(&all).await?;
    harness.stop().await
}

/// The Kafka partition in which the order service's newest events are farthest from the start.
async fn longest_partition(harness: &Harness) -> anyhow::Result<i32> {
    let longest = "select kafka_partition from outbox_positions order by kafka_offset desc limit 1";
    let longest = sqlx::query_scalar(longest).fetch_one(&harness.databases.order);
    Ok(longest.await?)
}

/// How many times the services have noticed that Kafka lost events. Which of them lost some is chance.
async fn losses_noticed(harness: &Harness) -> anyhow::Result<f64> {
    let mut all = 0.0;
    for service in [Service::Order, Service::Payment, Service::Fulfilment] {
        let url = format!("{}/metrics", harness.system.url(service));
        let text = reqwest::get(url).await?.text().await?;
        let lines = text.lines().filter(|it| it.starts_with(DATA_LOSSES));
        all += lines
            .filter_map(|it| it.rsplit(' ').next()?.parse::<f64>().ok())
            .sum::<f64>();
    }
    Ok(all)
}

/// Kafka comes back with half of one partition, as after a power failure.
#[tokio::test]
async fn truncated_partition_is_healed_by_the_services() -> anyhow::Result<()> {
    let harness = start_with_apache().await?;
    let stages = Stages::reach(&harness).await?;
    let cut = longest_partition(&harness).await?;
    harness.system.truncate_partition(cut).await?;
    stages.heal(&harness).await?;
    testkit::eventually("the loss is noticed", async || {
        losses_noticed(&harness)
            .await
            .is_ok_and(|losses| losses >= 1.0)
    })
    .await;
    harness.stop().await
}
