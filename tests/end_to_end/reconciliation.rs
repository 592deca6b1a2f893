//! The provider's books against ours, on the whole system.

use endpoints::Service;
use endpoints::provider::Fault;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{Harness, options};

async fn start() -> anyhow::Result<Harness> {
    let mut options = options();
    for (name, value) in [
        ("RECONCILE_GRACE_SECONDS", "0"),
        ("RECONCILE_ORPHAN_GRACE_SECONDS", "0"),
        ("RECONCILE_INTERVAL_SECONDS", "0"),
    ] {
        let setting = (name.to_owned(), value.to_owned());
        options.env.payment.push(setting);
    }
    Harness::start(options).await
}

async fn sweep(harness: &Harness) -> anyhow::Result<Value> {
    let url = harness.system.url(Service::Payment);
    let sweep = reqwest::Client::new().post(format!("{url}/admin/reconciliations?all=true"));
    let answer = sweep.send().await?.error_for_status()?;
    Ok(serde_json::from_str(&answer.text().await?)?)
}

/// A charge that somebody made at the provider in our name, without us.
async fn charge_by_hand(harness: &Harness, reference: Uuid) -> anyhow::Result<()> {
    let key = format!("pay:{reference}:1");
    let url = format!("{}/v1/charges", harness.system.url(Service::Psp));
    let body = json!({
        "reference": reference, "amount": 700, "currency": "USD", "payment_method": "pm_card_ok",
    });
    let charge = reqwest::Client::new().post(url).json(&body);
    let answer = charge.header("idempotency-key", key).send().await?;
    answer.error_for_status()?;
    Ok(())
}

#[tokio::test]
async fn books_that_agree_make_an_empty_report() -> anyhow::Result<()> {
    let harness = start().await?;
    let orders = harness.place_many(5).await?;
    harness.expect_shipped_once(&orders).await?;
    let refunded = harness.place_out_of_stock().await?;
    harness.expect_end(refunded, "refunded").await?;
    let report = sweep(&harness).await?;
    assert_eq!(report["charges"], 6);
    assert_eq!(report["attempts"], 6);
    assert_eq!(report["differing"], 0, "{report:#}");
    harness.stop().await
}

#[tokio::test]
async fn an_orphan_charge_goes_back_once_however_often_the_books_are_compared() -> anyhow::Result<()>
{
    let harness = start().await?;
    let stranger = Uuid::new_v4();
    charge_by_hand(&harness, stranger).await?;
    for _ in 0..3 {
        sweep(&harness).await?;
    }
    harness.expect_settled_but("L5 books = payments").await?;
    assert_eq!(harness.books(stranger).await?, (1, 1));
    let report = sweep(&harness).await?;
    assert_eq!(report["refunds_opened"], 0);
    harness.stop().await
}

#[tokio::test]
async fn an_unknown_outcome_is_settled_from_the_books_while_the_provider_answers_nobody()
-> anyhow::Result<()> {
    let harness = start().await?;
    // Every charge is made and no answer ever comes.
    let fault = Fault {
        point: "after_charge",
        action: "hang",
        delay_ms: None,
        times: None,
        reference: None,
    };
    harness.set_fault(fault).await?;
    let orders = harness.place_many(3).await?;
    for order in &orders {
        harness.wait_for_charge(*order).await?;
    }
    let report = sweep(&harness).await?;
    assert_eq!(report["settled"], 3, "{report:#}");
    harness.expect_shipped_once(&orders).await?;
    harness.stop().await
}

/// Window 15: the reconciler dies in mid-sweep; the next sweep does the rest, and nothing twice.
async fn kill_at(point: &str) -> anyhow::Result<()> {
    let harness = start().await?;
    let stranger = Uuid::new_v4();
    charge_by_hand(&harness, stranger).await?;
    harness.arm(Service::Payment, point).await?;
    let died = sweep(&harness).await;
    assert!(died.is_err(), "the sweep must be cut short: {died:?}");
    harness.expect_killed(Service::Payment).await?;
    let ready = std::time::Duration::from_secs(30);
    harness
        .system
        .wait_ready(Service::Payment.name(), ready)
        .await?;
    let report = sweep(&harness).await?;
    let expected = i64::from(point == "reconcile.page_read");
    assert_eq!(report["refunds_opened"], expected, "{report:#}");
    harness.expect_settled_but("L5 books = payments").await?;
    assert_eq!(harness.books(stranger).await?, (1, 1));
    harness.stop().await
}

#[tokio::test]
async fn window_15_payment_dies_before_it_acts_on_a_page() -> anyhow::Result<()> {
    kill_at("reconcile.page_read").await
}

#[tokio::test]
async fn window_15_payment_dies_after_a_page() -> anyhow::Result<()> {
    kill_at("reconcile.page_committed").await
}
