//! A customer hears of every end of an order, once: paid, declined, failed, cancelled or refunded.

use endpoints::Service;
use endpoints::client::{new_key, order_body};

use crate::cancels::wait_for_decision;
use crate::harness::{Harness, SETTLE_TIMEOUT};

const RECEIPT: &str = "Your receipt";
const DECLINE: &str = "Payment declined";
const FAILURE: &str = "Payment failed";
const CANCELLATION: &str = "is cancelled";
const REFUND: &str = "Your refund";

#[tokio::test]
async fn every_end_of_an_order_has_exactly_its_mails() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let shipped = harness.place().await?;
    let body = order_body(1).replace("pm_card_ok", "pm_card_declined");
    let paid_again = harness.place_with(&new_key("declined"), &body).await?;
    let given_up = harness.place_with(&new_key("given-up"), &body).await?;
    let refunded = harness.place_out_of_stock().await?;
    let client = &harness.client;
    for order in [paid_again, given_up] {
        client
            .wait_for_status(order, "declined", SETTLE_TIMEOUT)
            .await?;
    }
    let key = new_key("again");
    let paid = client.pay_again(paid_again, &key, "pm_card_ok").await?;
    assert_eq!(paid.status, 201);
    assert_eq!(harness.cancel(given_up).await?, 204);
    for (order, status) in [
        (shipped, "shipped"),
        (paid_again, "shipped"),
        (given_up, "cancelled"),
        (refunded, "refunded"),
    ] {
        client
            .wait_for_status(order, status, SETTLE_TIMEOUT)
            .await?;
    }
    // Cancelled before payment can charge it.
    let payment = Service::Payment.name();
    harness.system.stop_service(payment).await?;
    let cancelled = harness.place().await?;
    assert_eq!(harness.cancel(cancelled).await?, 204);
    wait_for_decision(&harness, cancelled).await?;
    harness.system.start_service(payment).await?;
    // Checks every invariant: E1 compares the log of mails with the payments.
    harness.expect_end(cancelled, "cancelled").await?;
    harness.expect_subjects(shipped, &[RECEIPT])?;
    harness.expect_subjects(paid_again, &[DECLINE, RECEIPT])?;
    harness.expect_subjects(given_up, &[DECLINE, CANCELLATION])?;
    harness.expect_subjects(refunded, &[RECEIPT, REFUND])?;
    harness.expect_subjects(cancelled, &[CANCELLATION])?;
    harness.stop().await
}

/// The provider answers with a definite error. The customer hears of it, and pays again.
#[tokio::test]
async fn failed_payment_is_mailed_once_and_can_be_paid_again() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let body = order_body(1).replace("pm_card_ok", "pm_card_unknown");
    let paid_again = harness.place_with(&new_key("failed"), &body).await?;
    let given_up = harness.place_with(&new_key("failed"), &body).await?;
    let client = &harness.client;
    for order in [paid_again, given_up] {
        client.wait_for_status(order, "failed", PATIENCE).await?;
    }
    let key = new_key("again");
    let paid = client.pay_again(paid_again, &key, "pm_card_ok").await?;
    assert_eq!(paid.status, 201, "{}", paid.summary());
    assert_eq!(harness.cancel(given_up).await?, 204);
    // Checks every invariant: E1 compares the log of mails with payments and orders.
    harness.expect_shipped_once(&[paid_again]).await?;
    harness.expect_end(given_up, "cancelled").await?;
    harness.expect_subjects(paid_again, &[FAILURE, RECEIPT])?;
    harness.expect_subjects(given_up, &[FAILURE, CANCELLATION])?;
    harness.stop().await
}
