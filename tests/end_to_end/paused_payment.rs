//! Window 17: a payment process is paused during a call, loses its lease, and resumes after another
//! process has done its work. It continues with its stale call; nothing may happen twice.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;
use endpoints::Service;
use rustix::process::{Pid, Signal, kill_process};
use uuid::Uuid;

use crate::harness::{Harness, SETTLE_TIMEOUT, options};

const POLL: Duration = Duration::from_millis(50);

/// A lease that outlives the test: the rejection arrives before the lease of the attempt expires.
const LONG_LEASE_MS: &str = "600000";

/// A harness with two payment processes. The second is stopped.
async fn start(lease_ms: Option<&str>) -> anyhow::Result<Harness> {
    let mut options = options();
    options.replicas.payment = 2;
    let lease = lease_ms.map(|ms| ("LEASE_MS".to_owned(), ms.to_owned()));
    options.env.payment.extend(lease);
    let harness = Harness::start(options).await?;
    harness.system.stop_service("payment-2").await?;
    Ok(harness)
}

async fn wait_until_paused(pid: u32) -> anyhow::Result<()> {
    let wait = async {
        // The third field of the process's line is its state: T for stopped.
        let stopped = || -> anyhow::Result<bool> {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
            let after_name = stat.rsplit(')').next().unwrap_or_default();
            Ok(after_name.trim_start().starts_with('T'))
        };
        while !stopped()? {
            tokio::time::sleep(POLL).await;
        }
        anyhow::Ok(())
    };
    let paused = tokio::time::timeout(SETTLE_TIMEOUT, wait).await;
    paused.context("the process never paused")?
}

/// Places an order and pauses the first payment process at the point while it handles the order.
/// Returns the order and a function that resumes the zombie.
async fn pause_at(harness: &Harness, point: &str) -> anyhow::Result<(Uuid, impl FnOnce())> {
    harness.arm_to(Service::Payment, point, "pause").await?;
    let order = harness.place().await?;
    let pid = harness.system.pid("payment").context("payment is down")?;
    wait_until_paused(pid).await?;
    harness.system.start_service("payment-2").await?;
    let resume = move || {
        if let Some(pid) = Pid::from_raw(pid as i32) {
            let _ = kill_process(pid, Signal::CONT);
        }
    };
    Ok((order, resume))
}

/// Waits until the zombie's only call has this outcome.
async fn wait_for_outcome(harness: &Harness, outcome: &str) -> anyhow::Result<()> {
    let url = format!("{}/metrics", harness.system.url(Service::Payment));
    let outcome = format!("outcome=\"{outcome}\"");
    let wait = async {
        loop {
            let text = reqwest::get(&url).await?.text().await?;
            let mut calls = text.lines().filter(|it| it.starts_with("psp_calls_total"));
            if calls.any(|line| line.contains(&outcome)) {
                return anyhow::Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    };
    let received = tokio::time::timeout(SETTLE_TIMEOUT, wait).await;
    received.context("the zombie never received a response")?
}

/// Waits until the provider has replayed a response: the zombie's call has reached it.
async fn wait_for_replay(harness: &Harness) -> anyhow::Result<()> {
    let url = format!("{}/metrics", harness.system.url(Service::Psp));
    let wait = async {
        loop {
            let text = reqwest::get(&url).await?.text().await?;
            let mut lines = text.lines();
            if lines.any(|it| it.starts_with("psp_replays_total ") && !it.ends_with(" 0")) {
                return anyhow::Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    };
    let replayed = tokio::time::timeout(SETTLE_TIMEOUT, wait).await;
    replayed.context("the zombie's charge did not reach the provider")?
}

#[tokio::test]
async fn window_17_zombie_charge_after_take_over_charges_nothing() -> anyhow::Result<()> {
    let harness = start(None).await?;
    let (order, resume) = pause_at(&harness, "charge.sending").await?;
    harness.expect_shipped_once(&[order]).await?;
    resume();
    // The provider replays the charge. The lease is over, so the zombie has no time to look up what has
    // become of it, and believes nothing.
    wait_for_outcome(&harness, "unknown").await?;
    wait_for_replay(&harness).await?;
    harness.expect_shipped_once(&[order]).await?;
    harness.stop().await
}

#[tokio::test]
async fn window_17_zombie_charge_after_cancel_charges_nothing() -> anyhow::Result<()> {
    let harness = start(Some(LONG_LEASE_MS)).await?;
    let (order, resume) = pause_at(&harness, "charge.sending").await?;
    assert_eq!(harness.cancel(order).await?, 204);
    let rejected = "select count(*) from payments where rejected_at is not null";
    harness
        .wait_for_count(Service::Payment, rejected, 1)
        .await?;
    // The lease of the paused process expires.
    sqlx::query("update payments set due_at = now()")
        .execute(&harness.databases.payment)
        .await?;
    harness.expect_end(order, "cancelled").await?;
    assert_eq!(harness.books(order).await?, (0, 0));
    resume();
    // The provider has cancelled the key.
    wait_for_outcome(&harness, "declined").await?;
    harness.expect_end(order, "cancelled").await?;
    assert_eq!(harness.books(order).await?, (0, 0));
    harness.stop().await
}

#[tokio::test]
async fn window_17_zombie_result_after_cancel_is_discarded() -> anyhow::Result<()> {
    let harness = start(None).await?;
    let (order, resume) = pause_at(&harness, "charge.answered").await?;
    assert_eq!(harness.cancel(order).await?, 204);
    harness.expect_end(order, "refunded").await?;
    resume();
    wait_for_outcome(&harness, "captured").await?;
    harness.expect_end(order, "refunded").await?;
    assert_eq!(harness.books(order).await?, (1, 1));
    harness.stop().await
}
