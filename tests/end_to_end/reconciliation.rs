//! Reconciliation of the provider's ledger with payment's tables, in the whole system.

use endpoints::Service;
use endpoints::provider::Fault;
use invariants::Severity;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{Harness, SETTLE_TIMEOUT, options};

pub(crate) async fn start() -> anyhow::Result<Harness> {
    let mut options = options();
    for (name, value) in [
        ("RECONCILE_GRACE_SECONDS", "0"),
        ("RECONCILE_INTERVAL_SECONDS", "0"),
    ] {
        let setting = (name.to_owned(), value.to_owned());
        options.env.payment.push(setting);
    }
    Harness::start(options).await
}

async fn reconcile(harness: &Harness) -> anyhow::Result<Value> {
    let path = "/admin/reconciliations?all=true";
    let report = harness.operate(Service::Payment, Method::POST, path, None);
    report.await
}

/// An unexplained charge: made at the provider under our key, without an attempt.
pub(crate) async fn charge_by_hand(harness: &Harness, reference: Uuid) -> anyhow::Result<()> {
    let key = format!("pay:{reference}:1");
    let url = format!("{}/v1/charges", harness.system.url(Service::Psp));
    let body = json!({
        "reference": reference, "amount": 700, "currency": "USD", "payment_method": "pm_card_ok",
    });
    let charge = reqwest::Client::new().post(url).json(&body);
    let response = charge.header("idempotency-key", key).send().await?;
    response.error_for_status()?;
    Ok(())
}

#[tokio::test]
async fn matching_books_give_an_empty_report() -> anyhow::Result<()> {
    let harness = start().await?;
    let orders = harness.place_many(5).await?;
    harness.expect_shipped_once(&orders).await?;
    let refunded = harness.place_out_of_stock().await?;
    harness.expect_end(refunded, "refunded").await?;
    let report = reconcile(&harness).await?;
    assert_eq!(report["charges"], 6);
    assert_eq!(report["attempts"], 6);
    assert_eq!(report["differing"], 0, "{report:#}");
    harness.stop().await
}

/// An orphan charge: the provider forgot the key and charged a shipped order a second time.
async fn charge_twice(harness: &Harness, order: Uuid) -> anyhow::Result<()> {
    let again =
        "insert into charges (id, idempotency_key, reference, amount, currency, payment_method,
                                      status, created_at)
                 select $2, idempotency_key, reference, amount, currency, payment_method, status,
                        created_at
                 from charges where reference = $1";
    sqlx::query(again)
        .bind(order.to_string())
        .bind(Uuid::now_v7())
        .execute(&harness.databases.psp)
        .await?;
    Ok(())
}

/// An operator refunds the order's charge at the provider.
async fn refund_by_hand(harness: &Harness, order: Uuid) -> anyhow::Result<()> {
    let find = "select id, amount from charges where reference = $1";
    let (charge_id, amount): (Uuid, i64) = sqlx::query_as(find)
        .bind(order.to_string())
        .fetch_one(&harness.databases.psp)
        .await?;
    let url = format!("{}/v1/refunds", harness.system.url(Service::Psp));
    let body = json!({ "charge_id": charge_id, "amount": amount, "reference": order });
    let refund = reqwest::Client::new().post(url).json(&body);
    let response = refund.header("idempotency-key", "by-hand").send().await?;
    response.error_for_status()?;
    Ok(())
}

const CHARGED_TWICE: &str = "I1 one charge per order";

#[tokio::test]
async fn second_charge_is_refunded_once_despite_repeated_sweeps() -> anyhow::Result<()> {
    let harness = start().await?;
    let order = harness.place_many(1).await?;
    harness.expect_shipped_once(&order).await?;
    charge_twice(&harness, order[0]).await?;
    let severities = async || -> anyhow::Result<Vec<Severity>> {
        let found = invariants::always(&harness.databases).await?;
        Ok(found.into_iter().map(|it| it.severity).collect())
    };
    assert_eq!(severities().await?, [Severity::Violated]);
    for _ in 0..3 {
        reconcile(&harness).await?;
    }
    harness.expect_settled_but(CHARGED_TWICE).await?;
    assert_eq!(harness.books(order[0]).await?, (2, 1));
    assert_eq!(severities().await?, [Severity::Repaired]);
    let report = reconcile(&harness).await?;
    assert_eq!(report["refunds_opened"], 0);
    harness.stop().await
}

#[tokio::test]
async fn charge_that_we_cannot_explain_is_never_refunded() -> anyhow::Result<()> {
    let harness = start().await?;
    let unexplained = Uuid::new_v4();
    charge_by_hand(&harness, unexplained).await?;
    for _ in 0..3 {
        let report = reconcile(&harness).await?;
        assert_eq!(report["differences"][0]["kind"], "unexplained_charge");
        assert_eq!(report["refunds_opened"], 0);
    }
    assert_eq!(harness.books(unexplained).await?, (1, 0));
    harness.stop().await
}

#[tokio::test]
async fn manually_refunded_charge_is_refunded_once_in_the_books() -> anyhow::Result<()> {
    let harness = start().await?;
    // The provider charges and never responds. Then an operator refunds the charge manually.
    let fault = Fault {
        point: "after_charge",
        action: "hang",
        delay_ms: None,
        times: Some(1),
        reference: None,
    };
    harness.set_fault(fault).await?;
    let order = harness.place_many(1).await?[0];
    harness.wait_for_charge(order).await?;
    refund_by_hand(&harness, order).await?;
    reconcile(&harness).await?;
    harness.expect_end(order, "refunded").await?;
    harness.expect_settled().await?;
    assert_eq!(harness.books(order).await?, (1, 1));
    harness.stop().await
}

#[tokio::test]
async fn unknown_attempt_is_settled_from_the_provider_ledger() -> anyhow::Result<()> {
    let harness = start().await?;
    // The provider makes every charge and never responds.
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
    let report = reconcile(&harness).await?;
    assert_eq!(report["settled"], 3, "{report:#}");
    harness.expect_shipped_once(&orders).await?;
    harness.stop().await
}

/// Locks of running reconciliations: `"reco"` in ASCII.
const LOCKS: &str = "select count(*) from pg_locks
                     where locktype = 'advisory' and objid::bigint = x'7265636f'::integer
                       and database = (select oid from pg_database where datname = current_database())";

/// Window 15: the reconciler is killed during a reconciliation. The next one does the rest, and
/// nothing twice.
async fn kill_at(point: &str) -> anyhow::Result<()> {
    let harness = start().await?;
    let order = harness.place_many(1).await?[0];
    harness.expect_shipped_once(&[order]).await?;
    charge_twice(&harness, order).await?;
    harness.arm(Service::Payment, point).await?;
    let killed = reconcile(&harness).await;
    assert!(
        killed.is_err(),
        "the reconciliation must be interrupted: {killed:?}"
    );
    harness.expect_killed(Service::Payment).await?;
    harness
        .system
        .wait_ready(Service::Payment.name(), SETTLE_TIMEOUT)
        .await?;
    // The lock ends with the session of the dead process, when Postgres has noticed that it is gone.
    harness.wait_for_count(Service::Payment, LOCKS, 0).await?;
    let report = reconcile(&harness).await?;
    let expected = i64::from(point == "reconcile.page_read");
    assert_eq!(report["refunds_opened"], expected, "{report:#}");
    harness.expect_settled_but(CHARGED_TWICE).await?;
    assert_eq!(harness.books(order).await?, (2, 1));
    harness.stop().await
}

#[tokio::test]
async fn window_15_payment_killed_before_acting_on_page() -> anyhow::Result<()> {
    kill_at("reconcile.page_read").await
}

#[tokio::test]
async fn window_15_payment_killed_after_page_commit() -> anyhow::Result<()> {
    kill_at("reconcile.page_committed").await
}
