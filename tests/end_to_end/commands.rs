//! The operators' commands, as the real program, on a running system.

use anyhow::{Context as _, ensure};
use endpoints::Service;
use endpoints::client::{new_key, order_body};
use endpoints::provider::Fault;
use serde_json::Value;
use uuid::Uuid;

use crate::harness::{Harness, SETTLE_TIMEOUT, options};
use crate::operators;
use crate::reconciliation::{charge_by_hand, start};

/// Runs the command, which must succeed, and returns what it printed.
async fn done(harness: &Harness, arguments: &[&str]) -> anyhow::Result<String> {
    let (done, text) = operators::chargeonce(harness, None, arguments).await?;
    ensure!(done, "{arguments:?}: {text}");
    Ok(text)
}

/// The same for a command that must fail.
async fn fails(harness: &Harness, arguments: &[&str]) -> anyhow::Result<String> {
    let (done, text) = operators::chargeonce(harness, None, arguments).await?;
    ensure!(!done, "{arguments:?}: {text}");
    Ok(text)
}

async fn json(harness: &Harness, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
    let text = done(harness, arguments).await?;
    let rows: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
    Ok(rows.as_array().cloned().unwrap_or_default())
}

/// The actions in the audit log, newest first.
async fn audited(harness: &Harness) -> anyhow::Result<Vec<String>> {
    let rows = json(harness, &["audit", "--json"]).await?;
    let action = |row: &Value| row["action"].as_str().unwrap_or_default().to_owned();
    Ok(rows.iter().map(action).collect())
}

#[tokio::test]
async fn parked_messages_are_shown_redriven_and_discarded() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    let poison = |id: Uuid| {
        let sql = format!("alter table shipments add constraint poison check (order_id <> '{id}')");
        sqlx::AssertSqlSafe(sql)
    };
    let cure = "alter table shipments drop constraint poison";
    let parked = "select count(*) from parked_messages";
    let fulfilment = &harness.databases.fulfilment;
    let list = ["redrive", "list", "--json"];
    ensure!(
        done(&harness, &list[..2])
            .await?
            .contains("no parked messages")
    );
    let mut orders = Vec::new();
    for action in ["run", "discard"] {
        let order = Uuid::now_v7();
        orders.push(order);
        sqlx::raw_sql(poison(order)).execute(fulfilment).await?;
        harness.put(order).await?;
        harness
            .wait_for_count(Service::Fulfilment, parked, 1)
            .await?;
        let rows = json(&harness, &list).await?;
        ensure!(rows[0]["order_id"] == order.to_string(), "{rows:?}");
        let id = rows[0]["id"].to_string();
        let one = ["--service", "fulfilment", &id];
        let shown = done(&harness, &[&["redrive", "show"][..], &one].concat()).await?;
        ensure!(shown.contains("payment.captured"), "{shown}");
        let command = [&["redrive", action, "--reason", "cause removed"][..], &one].concat();
        let without_service = ["redrive", action, "--reason", "cause removed", &id];
        ensure!(
            fails(&harness, &without_service)
                .await?
                .contains("--service")
        );
        if action == "run" {
            // The cause still exists.
            fails(&harness, &command).await?;
        }
        sqlx::query(cure).execute(fulfilment).await?;
        done(&harness, &command).await?;
        harness
            .wait_for_count(Service::Fulfilment, parked, 0)
            .await?;
        // A repeat finds nothing to do.
        done(&harness, &command).await?;
    }
    let redriven = harness
        .client
        .wait_for_status(orders[0], "shipped", SETTLE_TIMEOUT);
    redriven.await?;
    let all = ["redrive", "run", "--all", "--reason", "all"];
    ensure!(done(&harness, &all).await?.contains("no parked messages"));
    let actions = ["parked.discard", "parked.redrive", "parked.redrive"];
    assert_eq!(audited(&harness).await?, actions);
    // The discarded capture comes back only manually: without its shipment the order stays paid.
    assert_eq!(harness.client.order(orders[1]).await?.status, "paid");
    harness.stop().await
}

#[tokio::test]
async fn unexplained_charges_are_decided_by_command() -> anyhow::Result<()> {
    let harness = start().await?;
    let (refunded, kept) = (Uuid::new_v4(), Uuid::new_v4());
    let none = done(&harness, &["resolve", "list"]).await?;
    ensure!(none.contains("no unexplained charges"), "{none}");
    for reference in [refunded, kept] {
        charge_by_hand(&harness, reference).await?;
    }
    // Differences were flagged: the command says so with its exit code.
    let report = fails(&harness, &["reconcile", "--all", "--reason", "test"]).await?;
    ensure!(report.contains("unexplained_charge"), "{report}");
    let list = done(&harness, &["resolve", "list"]).await?;
    let charge = |reference: Uuid| {
        let line = list.lines().find(|it| it.contains(&reference.to_string()));
        let id = line.and_then(|it| it.split_whitespace().next());
        id.map(str::to_owned).with_context(|| list.clone())
    };
    let refund = charge(refunded)?;
    let command = ["resolve", "refund-charge", &refund, "--reason", "ours"];
    fails(&harness, &command[..3]).await?;
    let dry_run = done(&harness, &command).await?;
    ensure!(dry_run.contains("repeat with --yes"), "{dry_run}");
    assert_eq!(harness.books(refunded).await?, (1, 0));
    let command = [&command[..], &["--yes"]].concat();
    done(&harness, &command).await?;
    let made = "select count(*) from refunds where status = 'refunded'";
    harness.wait_for_count(Service::Psp, made, 1).await?;
    let again = done(&harness, &command).await?;
    ensure!(again.contains("already"), "{again}");
    let keep = charge(kept)?;
    let command = [
        "resolve",
        "accept-charge",
        &keep,
        "--reason",
        "a test of ours",
    ];
    done(&harness, &command).await?;
    ensure!(
        done(&harness, &["resolve", "list"])
            .await?
            .contains("no unexplained")
    );
    assert_eq!(harness.books(refunded).await?, (1, 1));
    assert_eq!(harness.books(kept).await?, (1, 0));
    let decided = "unexplained_charges.decide";
    assert_eq!(audited(&harness).await?, [decided, decided, "reconcile"]);
    harness.expect_settled().await?;
    harness.stop().await
}

#[tokio::test]
async fn unknown_attempts_are_resolved_by_command() -> anyhow::Result<()> {
    let harness = start().await?;
    harness
        .set_fault(Fault {
            point: "before_charge",
            action: "error",
            delay_ms: None,
            times: Some(1_000),
            reference: None,
        })
        .await?;
    let order = harness.place().await?;
    let unknown = "select count(*) from payments where status = 'unknown'";
    harness.wait_for_count(Service::Payment, unknown, 1).await?;
    let id = order.to_string();
    let command = [
        "resolve",
        "not-charged",
        &id,
        "1",
        "--reason",
        "asked the provider",
    ];
    done(&harness, &command).await?;
    let again = done(&harness, &command).await?;
    ensure!(again.contains("already"), "{again}");
    let captured = ["resolve", "captured", &id, "1", "ch_1", "--reason", "no"];
    ensure!(fails(&harness, &captured).await?.contains("409"));
    let missing = Uuid::new_v4().to_string();
    let nowhere = ["resolve", "not-charged", &missing, "1", "--reason", "no"];
    ensure!(fails(&harness, &nowhere).await?.contains("404"));
    harness.clear_faults().await?;
    harness.expect_end(order, "failed").await?;
    assert_eq!(
        audited(&harness).await?.last().map(String::as_str),
        Some("faults.arm")
    );
    harness.stop().await
}

#[tokio::test]
async fn mails_and_held_orders_are_handled_by_command() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    let orders = harness.place_many(3).await?;
    harness.expect_shipped_once(&orders).await?;
    let no_mail = done(&harness, &["mails", "list"]).await?;
    ensure!(no_mail.contains("no mail"), "{no_mail}");
    let receipt = &harness.databases.receipt;
    let hold = "update receipts set status = 'held', sent_at = null, tries = 0, tries_in_doubt = 0";
    sqlx::query(hold).execute(receipt).await?;
    let held = json(&harness, &["mails", "list", "--json"]).await?;
    ensure!(held.len() == 3, "{held:?}");
    let first = orders[0].to_string();
    let release = ["mails", "release", "--order", &first, "--reason", "lost"];
    fails(&harness, &release[..4]).await?;
    ensure!(done(&harness, &release).await?.contains("1 mails released"));
    ensure!(done(&harness, &release).await?.contains("0 mails released"));
    let fail = "update receipts set status = 'failed', tries = 1, last_error = '550'
                where order_id = $1";
    sqlx::query(fail).bind(orders[1]).execute(receipt).await?;
    let failed = json(&harness, &["mails", "list", "--status", "failed", "--json"]).await?;
    let event = failed[0]["event_id"].as_str().context("no event")?;
    let resolve = [
        "mails", "resolve", event, "receipt", "--tries", "1", "--action",
    ];
    let again = [&resolve[..], &["send", "--reason", "again"]].concat();
    done(&harness, &again).await?;
    let other = [&resolve[..], &["settle", "--reason", "no"]].concat();
    ensure!(fails(&harness, &other).await?.contains("409"));
    let settle = ["mails", "settle", "--all", "--reason", "arrived"];
    ensure!(done(&harness, &settle).await?.contains("1 mails settled"));
    harness.expect_settled().await?;
    harness.expect_mails(&orders[..2], 2..=2)?;
    harness.expect_mails(&orders[2..], 1..=1)?;

    let none = done(&harness, &["held"]).await?;
    ensure!(none.contains("no held orders"), "{none}");
    let retry = [
        "held",
        "--service",
        "order",
        "--retry",
        &first,
        "--reason",
        "now",
    ];
    ensure!(fails(&harness, &retry).await?.contains("404"));
    let republish = ["republish", "--since", "1h", "--service", "payment"];
    fails(&harness, &republish).await?;
    let republish = [&republish[..], &["--reason", "test", "--json"]].concat();
    let counts = done(&harness, &republish).await?;
    ensure!(counts.contains(r#""payment":3"#), "{counts}");
    let actions = [
        "outbox.republish",
        "mails.settle",
        "mails.resolve",
        "mails.release",
    ];
    assert_eq!(audited(&harness).await?, actions);
    harness.expect_shipped_once(&orders).await?;
    harness.stop().await
}

#[tokio::test]
async fn check_by_command_lists_what_waits() -> anyhow::Result<()> {
    let harness = start().await?;
    let order = harness
        .place_with(&new_key("check"), &order_body(1))
        .await?;
    harness.expect_shipped_once(&[order]).await?;
    let checked = done(&harness, &["check", &order.to_string()]).await?;
    ensure!(checked.contains("every invariant holds"), "{checked}");
    charge_by_hand(&harness, Uuid::new_v4()).await?;
    fails(&harness, &["reconcile", "--all", "--reason", "test"]).await?;
    let checked = fails(&harness, &["check"]).await?;
    ensure!(checked.contains("? O2 charge is unexplained"), "{checked}");
    ensure!(checked.contains("every invariant holds"), "{checked}");
    harness.stop().await
}
