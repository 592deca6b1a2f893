//! The gauges of the services' queues, as Prometheus reads them.

use std::time::Duration;

use anyhow::Context as _;
use endpoints::Service;
use endpoints::provider::Fault;

use crate::harness::{Harness, SETTLE_TIMEOUT};

const POLL: Duration = Duration::from_millis(100);

const LAG: &str = "inbox_lag_messages";
const PARKED: &str = "inbox_parked_messages";
const UNPUBLISHED: &str = "outbox_unpublished_rows";
const OLDEST: &str = "outbox_oldest_unpublished_seconds";
const PENDING: &str = r#"payments_open{status="pending"}"#;
const UNKNOWN: &str = r#"payments_open{status="unknown"}"#;
const UNKNOWN_AGE: &str = r#"payments_oldest_open_seconds{status="unknown"}"#;
const REFUNDS: &str = "refunds_open";

async fn read(harness: &Harness, service: Service, series: &str) -> anyhow::Result<Option<f64>> {
    let url = format!("{}/metrics", harness.system.url(service));
    let text = reqwest::get(url).await?.text().await?;
    let value = |line: &str| line.strip_prefix(series)?.trim().parse().ok();
    Ok(text.lines().find_map(value))
}

pub(crate) async fn wait_for(
    harness: &Harness,
    service: Service,
    series: &str,
    holds: impl Fn(f64) -> bool,
) -> anyhow::Result<()> {
    let wait = async {
        while !read(harness, service, series).await?.is_some_and(&holds) {
            tokio::time::sleep(POLL).await;
        }
        anyhow::Ok(())
    };
    let outcome = tokio::time::timeout(SETTLE_TIMEOUT, wait).await;
    outcome.with_context(|| format!("{service}: {series} never had the expected value"))?
}

#[tokio::test]
async fn payment_gauges_show_a_failing_provider_until_it_recovers() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let failing = Fault {
        point: "before_charge",
        action: "error",
        delay_ms: None,
        times: None,
        reference: None,
    };
    harness.set_fault(failing).await?;
    let orders = harness.place_many(3).await?;
    wait_for(&harness, Service::Payment, UNKNOWN, |count| count == 3.0).await?;
    wait_for(&harness, Service::Payment, UNKNOWN_AGE, |age| age > 1.0).await?;
    harness.clear_faults().await?;
    harness.expect_shipped_once(&orders).await?;
    for series in [PENDING, UNKNOWN, UNKNOWN_AGE, REFUNDS] {
        wait_for(&harness, Service::Payment, series, |value| value == 0.0).await?;
    }
    harness.stop().await
}

#[tokio::test]
async fn every_service_reports_its_queue_lengths() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let orders = harness.place_many(5).await?;
    harness.expect_shipped_once(&orders).await?;
    let consumers = [
        Service::Order,
        Service::Payment,
        Service::Fulfilment,
        Service::Receipt,
    ];
    for service in consumers {
        for series in [LAG, PARKED] {
            wait_for(&harness, service, series, |value| value == 0.0).await?;
        }
    }
    for service in [Service::Order, Service::Payment, Service::Fulfilment] {
        for series in [UNPUBLISHED, OLDEST] {
            wait_for(&harness, service, series, |value| value == 0.0).await?;
        }
    }
    harness.stop().await
}
