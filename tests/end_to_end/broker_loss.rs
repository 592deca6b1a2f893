//! Kafka loses all its data.

use std::time::Duration;

use endpoints::Service;
use reqwest::Method;
use serde_json::json;
use testkit::broker::Kafka;
use uuid::Uuid;

use crate::harness::{Harness, options};

/// The services that publish events.
const PUBLISHERS: [Service; 3] = [Service::Order, Service::Payment, Service::Fulfilment];
const SETTLED_WITHIN: Duration = Duration::from_secs(120);

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

#[tokio::test]
async fn broker_data_loss_is_healed_by_the_services() -> anyhow::Result<()> {
    let mut options = options();
    options.kafka = Kafka::Apache;
    let harness = Harness::start(options).await?;
    let before = harness.place_many(10).await?;
    harness.expect_shipped_once(&before).await?;

    // Two kinds of open orders: paid but not read by fulfilment, and placed but not read by payment.
    harness
        .system
        .stop_service(Service::Fulfilment.name())
        .await?;
    let paid = harness.place_many(10).await?;
    for order in &paid {
        let paid = Duration::from_secs(30);
        harness.client.wait_for_status(*order, "paid", paid).await?;
    }
    harness.system.stop_service(Service::Payment.name()).await?;
    let placed = harness.place_many(10).await?;
    let wait = async {
        while published(&harness).await? < 30 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await??;
    harness.system.lose_broker_data().await?;
    for service in [Service::Payment, Service::Fulfilment] {
        harness.system.start_service(service.name()).await?;
        let ready = Duration::from_secs(60);
        harness.system.wait_ready(service.name(), ready).await?;
    }
    let after = harness.place_many(5).await?;

    // No operator acts: the services notice the loss and publish their events again.
    let all: Vec<Uuid> = [before, paid, placed, after].concat();
    for order in &all {
        harness
            .client
            .wait_for_status(*order, "shipped", SETTLED_WITHIN)
            .await?;
    }
    harness.expect_shipped_once(&all).await?;
    // A republication by an operator changes nothing.
    assert!(
        republish(&harness).await? >= 30,
        "there was nothing to republish"
    );
    harness.expect_shipped_once(&all).await?;
    harness.stop().await
}
