//! One mail for each paid order (E1), counted in the mail server's directory.
//!
//! SMTP has no idempotency key, so a mail can be sent twice in one window. The server has accepted
//! the mail, and the sender dies or loses the response before it records that.

use std::ops::RangeInclusive;

use endpoints::Service;
use endpoints::client::{new_key, order_body};
use reqwest::Method;
use testkit::smtp_sink::{Action, Behaviour, PROCESS_NAME};
use uuid::Uuid;

use crate::harness::{Harness, SETTLE_TIMEOUT};

/// Status and tries of an order's receipt, from the service's operator route.
async fn receipt(harness: &Harness, order: Uuid) -> anyhow::Result<(String, i64)> {
    let path = format!("/admin/receipts/{order}");
    let entry = harness.operate(Service::Receipt, Method::GET, &path, None);
    let entry = entry.await?;
    let status = entry["status"].as_str().unwrap_or_default().to_owned();
    Ok((status, entry["tries"].as_i64().unwrap_or_default()))
}

#[tokio::test]
async fn paid_order_has_one_mail_despite_repeated_requests() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let (key, body) = (new_key("receipt"), order_body(2));
    let order = harness.place_with(&key, &body).await?;
    for _ in 0..3 {
        assert_eq!(harness.place_with(&key, &body).await?, order);
    }
    let declined = order_body(1).replace("pm_card_ok", "pm_card_declined");
    let declined = harness.place_with(&new_key("declined"), &declined).await?;
    harness
        .client
        .wait_for_status(declined, "declined", SETTLE_TIMEOUT)
        .await?;
    harness.expect_shipped_once(&[order]).await?;
    harness.expect_mails(&[order], 1..=1)?;
    harness.expect_subjects(declined, &["Payment declined"])?;
    assert_eq!(receipt(&harness, order).await?, ("sent".to_owned(), 1));
    harness.stop().await
}

/// Kills the process at the point while it sends one mail. In the end the receipt must be `sent`.
async fn kill_at(
    point: &str,
    mails_max: usize,
    expected_tries: RangeInclusive<i64>,
) -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let first = harness.place().await?;
    harness.expect_shipped_once(&[first]).await?;
    harness.arm(Service::Receipt, point).await?;
    let order = harness.place().await?;
    harness.expect_killed(Service::Receipt).await?;
    let last = harness.place().await?;
    harness.expect_shipped_once(&[first, order, last]).await?;
    harness.expect_mails(&[first, last], 1..=1)?;
    harness.expect_mails(&[order], 1..=mails_max)?;
    let name = Service::Receipt.name();
    harness.system.wait_ready(name, SETTLE_TIMEOUT).await?;
    let (status, tries) = receipt(&harness, order).await?;
    assert_eq!(status, "sent");
    assert!(expected_tries.contains(&tries), "{tries} tries");
    harness.stop().await
}

#[tokio::test]
async fn window_20_receipt_killed_before_consumer_commit() -> anyhow::Result<()> {
    kill_at("inbox.handled", 1, 1..=1).await
}

#[tokio::test]
async fn window_20_receipt_killed_before_offset_commit() -> anyhow::Result<()> {
    // The mail is logged leased, if the sender had a free slot.
    kill_at("inbox.committed", 1, 1..=2).await
}

#[tokio::test]
async fn window_21_receipt_killed_after_lease() -> anyhow::Result<()> {
    kill_at("receipt.leased", 1, 2..=2).await
}

/// The window that SMTP leaves open. Only here may a crash duplicate a mail.
#[tokio::test]
async fn window_22_receipt_killed_after_mail_before_record() -> anyhow::Result<()> {
    kill_at("receipt.sent", 2, 2..=2).await
}

#[tokio::test]
async fn window_23_receipt_killed_after_record() -> anyhow::Result<()> {
    kill_at("receipt.recorded", 1, 1..=1).await
}

#[tokio::test]
async fn one_lost_response_is_retried_two_need_an_operator() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let fault = |action, times| harness.set_mail_fault(Behaviour { action, times });
    let mut orders = Vec::new();
    for (action, times, mails, state) in [
        (Action::LoseReply, 1, 2, ("sent", 2)),
        (Action::LoseReply, 9, 2, ("unknown", 2)),
        (Action::Hang, 1, 2, ("sent", 2)),
        (Action::RejectContent(451), 3, 1, ("sent", 4)),
        (Action::RejectContent(550), 1, 0, ("failed", 1)),
    ] {
        fault(action, times)?;
        let order = harness.place().await?;
        orders.push(order);
        harness.expect_shipped_once(&orders).await?;
        harness.expect_mails(&[order], mails..=mails)?;
        let (status, tries) = receipt(&harness, order).await?;
        assert_eq!((&*status, tries), state, "{action:?}");
    }
    harness.stop().await
}

#[tokio::test]
async fn stopped_mail_server_gets_every_mail_after_restart() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    harness.system.stop_service(PROCESS_NAME).await?;
    let orders = harness.place_many(10).await?;
    for order in &orders {
        // Orders do not wait for mail.
        harness
            .client
            .wait_for_status(*order, "shipped", SETTLE_TIMEOUT)
            .await?;
    }
    harness.expect_mails(&orders, 0..=0)?;
    harness.system.start_service(PROCESS_NAME).await?;
    harness.expect_shipped_once(&orders).await?;
    harness.expect_mails(&orders, 1..=1)?;
    harness.stop().await
}
