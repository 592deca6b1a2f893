//! A database that is restored from a backup. The steps are those of docs/restore.md.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::ensure;
use endpoints::Service;
use reqwest::Method;
use serde_json::json;
use tokio::process::Command;

use crate::harness::{Harness, options};

const READY_WITHIN: Duration = Duration::from_secs(30);

async fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .await?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program}: {error}");
    Ok(())
}

async fn back_up(harness: &Harness, service: Service, file: &Path) -> anyhow::Result<()> {
    let (url, file) = (harness.system.database_url(service), file.to_string_lossy());
    run("pg_dump", &["--format=custom", "--file", &file, url]).await
}

/// Steps 1 to 3: stop the service, restore the backup, start the service.
async fn restore(harness: &Harness, service: Service, file: &Path) -> anyhow::Result<()> {
    harness.system.stop_service(service.name()).await?;
    let (url, file) = (harness.system.database_url(service), file.to_string_lossy());
    let flags = ["--clean", "--if-exists", "--single-transaction", "--dbname"];
    let arguments: Vec<&str> = flags.into_iter().chain([url, &*file]).collect();
    run("pg_restore", &arguments).await?;
    harness.system.start_service(service.name()).await?;
    let name = service.name();
    harness.system.wait_ready(name, READY_WITHIN).await
}

async fn republish(harness: &Harness, service: Service) -> anyhow::Result<()> {
    let since = chrono::Utc::now() - chrono::TimeDelta::hours(1);
    let body = Some(json!({ "since": since.to_rfc3339() }));
    let path = "/admin/outbox/republish";
    harness.operate(service, Method::POST, path, body).await?;
    Ok(())
}

#[tokio::test]
async fn restored_payment_charges_and_refunds_nothing_again() -> anyhow::Result<()> {
    let mut options = options();
    for (name, value) in [
        ("RECONCILE_GRACE_SECONDS", "0"),
        ("RECONCILE_INTERVAL_SECONDS", "0"),
    ] {
        let setting = (name.to_owned(), value.to_owned());
        options.env.payment.push(setting);
    }
    let harness = Harness::start(options).await?;
    let before = harness.place_many(5).await?;
    harness.expect_shipped_once(&before).await?;
    let folder = tempfile::tempdir()?;
    let backup = folder.path().join("payment.dump");
    back_up(&harness, Service::Payment, &backup).await?;

    // After the backup: orders that ship, and orders that are refunded.
    let shipped = harness.place_many(5).await?;
    harness.expect_shipped_once(&shipped).await?;
    let refunded = harness.place_out_of_stock().await?;
    harness.expect_end(refunded, "refunded").await?;
    harness.expect_settled().await?;

    restore(&harness, Service::Payment, &backup).await?;
    // Before the events are heard again, the reconciler sees charges that nothing explains. It refunds
    // none of them.
    let path = "/admin/reconciliations?all=true";
    let report = harness.operate(Service::Payment, Method::POST, path, None);
    let report = report.await?;
    assert_eq!(report["refunds_opened"], 0, "{report:#}");
    let open = "select count(*) from unexplained_charges where status = 'open'";
    harness.wait_for_count(Service::Payment, open, 6).await?;

    // Order first: a rejection needs its attempt.
    republish(&harness, Service::Order).await?;
    let attempts = "select count(*) from payments where status = 'captured'";
    harness
        .wait_for_count(Service::Payment, attempts, 11)
        .await?;
    republish(&harness, Service::Fulfilment).await?;
    let refunds = "select count(*) from refunds where status = 'refunded'";
    harness.wait_for_count(Service::Payment, refunds, 1).await?;
    let report = harness.operate(Service::Payment, Method::POST, path, None);
    let report = report.await?;
    assert_eq!(report["differing"], 0, "{report:#}");
    harness.wait_for_count(Service::Payment, open, 0).await?;

    harness.expect_settled().await?;
    let orders = [before, shipped].concat();
    harness.expect_shipped_once(&orders).await?;
    assert_eq!(harness.books(refunded).await?, (1, 1));
    harness.expect_end(refunded, "refunded").await?;
    harness.stop().await
}
