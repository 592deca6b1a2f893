//! A message that cannot be processed delays only its own order.

use std::time::Duration;

use anyhow::Context as _;
use endpoints::Service;
use reqwest::Method;
use serde_json::Value;
use uuid::Uuid;

use crate::harness::{Harness, SETTLE_TIMEOUT, options};

const POLL: Duration = Duration::from_millis(100);

async fn parked(harness: &Harness) -> anyhow::Result<Vec<Value>> {
    let fulfilment = Service::Fulfilment;
    let page = harness.operate(fulfilment, Method::GET, "/admin/parked", None);
    let page = page.await?;
    Ok(page["data"].as_array().cloned().unwrap_or_default())
}

async fn redrive(harness: &Harness, id: &Value) -> anyhow::Result<()> {
    let path = format!("/admin/parked/{id}/redrive");
    let redriven = harness.operate(Service::Fulfilment, Method::POST, &path, None);
    redriven.await?;
    Ok(())
}

async fn until_parked(harness: &Harness, count: usize) -> anyhow::Result<Vec<Value>> {
    let wait = async {
        loop {
            let parked = parked(harness).await?;
            if parked.len() == count {
                return anyhow::Ok(parked);
            }
            tokio::time::sleep(POLL).await;
        }
    };
    let parked = tokio::time::timeout(SETTLE_TIMEOUT, wait).await;
    parked.with_context(|| format!("never {count} parked messages"))?
}

#[tokio::test]
async fn failed_message_parks_only_its_order_and_is_redriven() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    // Fulfilment always fails on the capture of one order.
    let poisoned = Uuid::now_v7();
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!(
        "alter table shipments add constraint poison check (order_id <> '{poisoned}')"
    )))
    .execute(&harness.databases.fulfilment)
    .await?;
    harness.put(poisoned).await?;
    let mut others = harness.place_many(5).await?;
    let failed = until_parked(&harness, 1).await?;
    assert_eq!(failed[0]["order_id"], poisoned.to_string(), "{failed:?}");

    // Later messages of the order queue behind it. Other orders ship.
    assert_eq!(harness.cancel(poisoned).await?, 204);
    until_parked(&harness, 2).await?;
    others.extend(harness.place_many(5).await?);
    for order in &others {
        harness
            .client
            .wait_for_status(*order, "shipped", SETTLE_TIMEOUT)
            .await?;
    }
    harness
        .client
        .wait_for_status(poisoned, "paid", SETTLE_TIMEOUT)
        .await?;

    redrive(&harness, &failed[0]["id"]).await?;
    assert_eq!(parked(&harness).await?.len(), 2, "the cause still exists");
    sqlx::query("alter table shipments drop constraint poison")
        .execute(&harness.databases.fulfilment)
        .await?;
    redrive(&harness, &failed[0]["id"]).await?;
    // Messages keep their order: paid comes first, so the order ships before its cancellation request.
    others.push(poisoned);
    harness.expect_shipped_once(&others).await?;
    assert!(parked(&harness).await?.is_empty());
    harness.stop().await
}
