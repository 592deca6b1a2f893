//! Outcomes of real providers, in the whole system: later ones, definite errors, stored errors, lookups
//! that lag.

use endpoints::Service;
use endpoints::client::{new_key, order_body};
use endpoints::provider::Fault;
use uuid::Uuid;

use crate::cancels::wait_for_decision;
use crate::harness::{Harness, options};

async fn start(psp: &[(&str, &str)], payment: &[(&str, &str)]) -> anyhow::Result<Harness> {
    let mut options = options();
    let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    options.env.psp.extend(psp.iter().map(pair));
    options.env.payment.extend(payment.iter().map(pair));
    Harness::start(options).await
}

async fn place(harness: &Harness, method: &str) -> anyhow::Result<Uuid> {
    let body = order_body(1).replace("pm_card_ok", method);
    harness.place_with(&new_key("outcome"), &body).await
}

#[tokio::test]
async fn charge_that_is_captured_later_ships_once() -> anyhow::Result<()> {
    let harness = start(&[("PSP_PROCESSING_MS", "500")], &[]).await?;
    let order = place(&harness, "pm_card_processing").await?;
    harness.expect_shipped_once(&[order]).await?;
    assert_eq!(harness.books(order).await?, (1, 0));
    harness.stop().await
}

#[tokio::test]
async fn failed_payment_can_be_paid_again() -> anyhow::Result<()> {
    let harness = start(&[("PSP_PROCESSING_MS", "300")], &[]).await?;
    for method in ["pm_card_processing_fails", "pm_card_unknown"] {
        let order = place(&harness, method).await?;
        harness.expect_end(order, "failed").await?;
        let key = new_key("again");
        let again = harness.client.pay_again(order, &key, "pm_card_ok").await?;
        assert_eq!(again.status, 201, "{}", again.summary());
        harness.expect_shipped_once(&[order]).await?;
    }
    harness.stop().await
}

#[tokio::test]
async fn cancelled_order_with_a_pending_charge_is_refunded() -> anyhow::Result<()> {
    // Longer than the test takes: the charge is pending until the test settles it.
    let harness = start(&[("PSP_PROCESSING_MS", "600000")], &[]).await?;
    let order = place(&harness, "pm_card_processing").await?;
    harness.wait_for_charge(order).await?;
    assert_eq!(harness.cancel(order).await?, 204);
    wait_for_decision(&harness, order).await?;
    sqlx::query("update charges set settles_at = now()")
        .execute(&harness.databases.psp)
        .await?;
    harness.expect_end(order, "refunded").await?;
    assert_eq!(harness.books(order).await?, (1, 1));
    harness.stop().await
}

/// The provider stores its 5xx and repeats it. Nothing was charged, so order opens the next attempt.
#[tokio::test]
async fn stored_error_without_a_charge_opens_the_next_attempt() -> anyhow::Result<()> {
    let payment = [("PSP_ABSENCE_AGE_MS", "500"), ("RETRY_BASE_MS", "50")];
    let psp = [("PSP_REPLAY_5XX", "stored"), ("PSP_LOOKUP_LAG_MS", "300")];
    let harness = start(&psp, &payment).await?;
    let fault = Fault {
        point: "before_charge",
        action: "error",
        delay_ms: None,
        times: Some(1),
        reference: None,
    };
    harness.set_fault(fault).await?;
    let order = place(&harness, "pm_card_ok").await?;
    harness.expect_shipped_once(&[order]).await?;
    let key: String = sqlx::query_scalar("select idempotency_key from charges")
        .fetch_one(&harness.databases.psp)
        .await?;
    assert_eq!(key, format!("pay:{order}:2"));
    let reopened = "select count(*) from orders where reopened = 1";
    harness.wait_for_count(Service::Order, reopened, 1).await?;
    harness.expect_subjects(order, &["Your receipt"])?;
    harness.stop().await
}

/// The provider stores an error for every attempt that order opens. The customer hears of it once, when no
/// attempt is left.
#[tokio::test]
async fn used_up_attempts_are_mailed_once() -> anyhow::Result<()> {
    let payment = [("PSP_ABSENCE_AGE_MS", "100"), ("RETRY_BASE_MS", "50")];
    let harness = start(&[("PSP_REPLAY_5XX", "stored")], &payment).await?;
    let fault = Fault {
        point: "before_charge",
        action: "error",
        delay_ms: None,
        times: None,
        reference: None,
    };
    harness.set_fault(fault).await?;
    let order = place(&harness, "pm_card_ok").await?;
    harness.expect_end(order, "failed").await?;
    harness.expect_subjects(order, &["Payment failed"])?;
    let used_up = "select count(*) from orders where reopened = 3 and attempt = 4";
    harness.wait_for_count(Service::Order, used_up, 1).await?;
    harness.clear_faults().await?;
    let key = new_key("again");
    let again = harness.client.pay_again(order, &key, "pm_card_ok").await?;
    assert_eq!(again.status, 201, "{}", again.summary());
    harness.expect_shipped_once(&[order]).await?;
    harness.expect_subjects(order, &["Payment failed", "Your receipt"])?;
    harness.stop().await
}

#[tokio::test]
async fn cancelling_works_without_key_cancellation() -> anyhow::Result<()> {
    let psp = [("PSP_KEY_CANCELLATION", "off")];
    let harness = start(&psp, &[("PSP_CAN_CANCEL_KEYS", "false")]).await?;
    // The provider charges and never responds, until payment asks again.
    let fault = Fault {
        point: "after_charge",
        action: "hang",
        delay_ms: None,
        times: Some(1),
        reference: None,
    };
    harness.set_fault(fault).await?;
    let order = place(&harness, "pm_card_ok").await?;
    harness.wait_for_charge(order).await?;
    assert_eq!(harness.cancel(order).await?, 204);
    harness.expect_end(order, "refunded").await?;
    harness.expect_settled().await?;
    assert_eq!(harness.books(order).await?, (1, 1));
    harness.stop().await
}
