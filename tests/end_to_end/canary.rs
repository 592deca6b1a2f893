//! `chargeonce canary`: a real order, counted in the provider's books.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use endpoints::Service;
use testkit::binaries::Binaries;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::harness::{Harness, SETTLE_TIMEOUT, options};
use crate::operators::chargeonce;

#[tokio::test]
async fn canary_order_ships_with_one_charge() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    let (done, text) = chargeonce(&harness, None, &["canary", "--once"]).await?;
    ensure!(done && text.contains("one charge, shipped in"), "{text}");
    let orders: i64 = sqlx::query_scalar("select count(*) from charges")
        .fetch_one(&harness.databases.psp)
        .await?;
    ensure!(orders == 1, "{orders} charges");
    let (order, psp) = (Service::Order, Service::Psp);
    let urls = [harness.system.url(order), harness.system.url(psp)];
    let over_api = ["canary", "--once", "--url", urls[0], "--psp-url", urls[1]];
    let (done, text) = chargeonce(&harness, None, &over_api).await?;
    ensure!(done && text.contains("one charge, shipped in"), "{text}");
    let declined = [
        "canary",
        "--once",
        "--payment-method",
        "pm_card_declined",
        "--within",
        "2",
    ];
    let (done, text) = chargeonce(&harness, None, &declined).await?;
    ensure!(!done && text.contains("not shipped"), "{text}");
    harness.stop().await
}

#[tokio::test]
async fn canary_exports_its_result() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    let mut canary = Command::new(Binaries::locate(None)?.path("chargeonce")?)
        .args(["canary", "--interval", "1", "--listen", "127.0.0.1:0"])
        .env("CHARGEONCE_STATE_DIR", harness.system.state_dir())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut lines = BufReader::new(canary.stdout.take().context("no output")?).lines();
    let first = lines.next_line().await?.context("no line")?;
    let url = first.strip_prefix("metrics at ").context(first.clone())?;
    let http = endpoints::client::http(SETTLE_TIMEOUT)?;
    let metrics = async |name: &str| -> anyhow::Result<f64> {
        let text = http.get(url).send().await?.text().await?;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let value = line.with_context(|| format!("no {name} in {text}"))?;
        value.trim().parse().context(text.clone())
    };
    // Before the first order is done, every series exists.
    ensure!(metrics("canary_failures_total{reason=\"charges\"}").await? == 0.0);
    let started = metrics("canary_last_success_seconds").await?;
    for _ in 0..2 {
        let line = lines.next_line().await?.context("no line")?;
        ensure!(line.starts_with("✓ "), "{line}");
    }
    // The line is printed before the metrics are updated.
    let deadline = tokio::time::Instant::now() + SETTLE_TIMEOUT;
    while metrics("canary_orders_total").await? < 2.0 {
        ensure!(
            tokio::time::Instant::now() < deadline,
            "two orders are not counted"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ensure!(metrics("canary_last_success_seconds").await? > started);
    ensure!(metrics("canary_duration_seconds_count").await? >= 2.0);
    canary.kill().await?;
    harness.stop().await
}
