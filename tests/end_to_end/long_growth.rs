//! The tables grow a hundredfold. An order must not cost more, and a replay not more than an order. Counts, not times.
//!
//! One of the long tests: `scripts/test.sh --long`.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use testkit::binaries::Binaries;
use tokio::process::Command;

/// What a figure of the largest size may be, relative to the smallest.
const GROWTH_MAX: f64 = 1.1;

/// Runs `lab growth` with its own system, and returns the report.
async fn growth() -> anyhow::Result<Value> {
    let output = Command::new(Binaries::locate(None)?.path("lab")?)
        .args(["growth", "--orders", "1000,100000", "--load", "500"])
        .args(["--kafka", "embedded", "--json", "-"])
        .kill_on_drop(true)
        .output()
        .await?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{error}");
    serde_json::from_slice(&output.stdout).with_context(|| error.into_owned())
}

fn figure(of: &Value, name: &str) -> f64 {
    of[name].as_f64().unwrap_or(f64::INFINITY)
}

#[tokio::test]
async fn cost_of_an_order_does_not_grow_with_the_tables() -> anyhow::Result<()> {
    let report = growth().await?;
    let sizes = report["sizes"].as_array().context("no sizes")?;
    ensure!(sizes.len() == 2, "{} sizes", sizes.len());
    let largest = &sizes[1];
    ensure!(largest["orders"] == 100_000 && largest["invariants"] == true);
    for name in ["buffers", "wal_bytes", "wal_records"] {
        let ratio = figure(&largest["ratios"], name);
        ensure!(ratio <= GROWTH_MAX, "{name} grew to {ratio}: {largest:#}");
    }
    for size in sizes {
        for name in ["buffers", "wal_bytes", "wal_records"] {
            let ratio = figure(&size["replay"]["ratios"], name);
            ensure!(ratio <= 1.0, "{name} of a replay: {ratio} of an order");
        }
        // The reapers worked meanwhile: they removed a key for each order, and dropped a partition.
        let statements = size["maintenance"]["statements"].as_array();
        let statements = statements.context("no maintenance")?;
        let rows_of = |part: &str| -> f64 {
            let texts = statements.iter();
            let texts =
                texts.filter(|it| it["statement"].as_str().unwrap_or_default().contains(part));
            texts.map(|it| figure(it, "rows")).sum()
        };
        let dropped = statements
            .iter()
            .any(|it| it["statement"] == "drop table outbox_expired");
        ensure!(
            rows_of("delete from idempotency_keys") >= 500.0 && dropped,
            "{size:#}"
        );
    }
    Ok(())
}
