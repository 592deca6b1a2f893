//! Charges whose outcome is unknown because the provider's response was lost.

use std::time::Duration;

use endpoints::Service;
use endpoints::provider::Fault;
use reqwest::Method;
use serde_json::Value;
use testkit::system::SystemOptions;
use uuid::Uuid;

use crate::harness::{Harness, SETTLE_TIMEOUT, options};

/// How long the provider knows a key.
const KEY_WINDOW_S: u32 = 24;
/// Payment stops sending a key this long before the provider forgets it. What remains of the window is the time
/// that a test waits. The margin is long: a request that a busy machine delays must not arrive after it.
const KEY_MARGIN_S: u32 = 20;

/// A provider that forgets its keys soon, and a payment service with the same settings.
fn forgetful() -> SystemOptions {
    let mut options = options();
    let window = (
        "PSP_KEY_WINDOW_SECONDS".to_owned(),
        KEY_WINDOW_S.to_string(),
    );
    let margin = (
        "PSP_KEY_MARGIN_SECONDS".to_owned(),
        KEY_MARGIN_S.to_string(),
    );
    options.env.psp.push(window.clone());
    options.env.payment.extend([window, margin]);
    options
}

fn fault(point: &'static str, action: &'static str) -> Fault {
    Fault {
        point,
        action,
        delay_ms: None,
        times: None,
        reference: None,
    }
}

async fn operator_view(harness: &Harness, order: Uuid) -> anyhow::Result<Value> {
    let path = format!("/admin/payments/{order}");
    let view = harness.operate(Service::Payment, Method::GET, &path, None);
    // Payment may not know the order yet.
    let view = view.await.unwrap_or_default();
    Ok(view["attempts"][0].clone())
}

#[tokio::test]
async fn operator_sees_reason_tries_and_next_try_of_unknown() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    harness.set_fault(fault("before_charge", "error")).await?;
    let order = harness.place().await?;
    let wait = async {
        loop {
            let view = operator_view(&harness, order).await?;
            if view["status"] == "unknown" && view["tries"].as_i64() > Some(1) {
                return anyhow::Ok(view);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let view = tokio::time::timeout(SETTLE_TIMEOUT, wait).await??;
    assert_eq!(view["last_error"], "status 500");
    assert!(view["next_try_at"].is_string(), "{view}");
    harness.clear_faults().await?;
    harness.expect_shipped_once(&[order]).await?;
    harness.stop().await
}

#[tokio::test]
async fn provider_that_forgets_keys_still_charges_once() -> anyhow::Result<()> {
    // Every response is lost: with one send more, after the provider has forgotten the key, it would charge twice.
    let harness = Harness::start(forgetful()).await?;
    harness.set_fault(fault("after_charge", "drop")).await?;
    let orders = harness.place_many(5).await?;
    harness.expect_shipped_once(&orders).await?;
    let sent_last: f64 = sqlx::query_scalar(
        "select max(extract(epoch from updated_at - first_called_at))::float8 from payments",
    )
    .fetch_one(&harness.databases.payment)
    .await?;
    assert!(
        sent_last >= f64::from(KEY_WINDOW_S - KEY_MARGIN_S),
        "the margin was never reached: {sent_last} s"
    );
    harness.stop().await
}

#[tokio::test]
async fn absent_charge_is_sent_again_after_a_lookup() -> anyhow::Result<()> {
    let harness = Harness::start(forgetful()).await?;
    harness.set_fault(fault("before_charge", "drop")).await?;
    let orders = harness.place_many(3).await?;
    let looked_up = async || -> anyhow::Result<bool> {
        let metrics = reqwest::get(format!("{}/metrics", harness.system.url(Service::Payment)));
        let text = metrics.await?.text().await?;
        let absent = |line: &&str| line.starts_with("psp_calls_total") && line.contains("absent");
        Ok(text.lines().any(|line| absent(&line)))
    };
    let wait = async {
        while !looked_up().await? {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(SETTLE_TIMEOUT, wait).await??;
    harness.clear_faults().await?;
    harness.expect_shipped_once(&orders).await?;
    harness.stop().await
}

#[tokio::test]
async fn replayed_errors_are_resolved_by_a_lookup() -> anyhow::Result<()> {
    let mut options = forgetful();
    let stored = ("PSP_REPLAY_5XX".to_owned(), "stored".to_owned());
    options.env.psp.push(stored);
    let harness = Harness::start(options).await?;
    let mut fault = fault("after_charge", "error");
    fault.times = Some(1);
    harness.set_fault(fault).await?;
    let order = harness.place().await?;
    harness.expect_shipped_once(&[order]).await?;
    harness.stop().await
}
