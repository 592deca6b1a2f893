//! A customer whose card was declined pays with another one.

use endpoints::Service;
use endpoints::client::{new_key, order_body};
use uuid::Uuid;

use crate::harness::{Harness, SETTLE_TIMEOUT};

async fn place_declined(harness: &Harness) -> anyhow::Result<Uuid> {
    let body = order_body(1).replace("pm_card_ok", "pm_card_declined");
    let order = harness.place_with(&new_key("declined"), &body).await?;
    harness
        .client
        .wait_for_status(order, "declined", SETTLE_TIMEOUT)
        .await?;
    Ok(order)
}

#[tokio::test]
async fn declined_order_is_paid_once_by_a_later_attempt() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let order = place_declined(&harness).await?;
    // Another card that is declined as well, then a good one. Each request is sent twice.
    for (method, end) in [("pm_card_expired", "declined"), ("pm_card_ok", "shipped")] {
        let key = new_key("again");
        let first = harness.client.pay_again(order, &key, method).await?;
        assert_eq!(first.status, 201, "{}", first.summary());
        let replay = harness.client.pay_again(order, &key, method).await?;
        assert!(replay.replayed, "{}", replay.summary());
        harness.expect_end(order, end).await?;
    }
    assert_eq!(harness.books(order).await?, (1, 0));
    let query = "select idempotency_key from charges where reference = $1";
    let key: String = sqlx::query_scalar(query)
        .bind(order.to_string())
        .fetch_one(&harness.databases.psp)
        .await?;
    assert_eq!(key, format!("pay:{order}:3"));
    let key = new_key("late");
    let late = harness.client.pay_again(order, &key, "pm_card_ok").await?;
    assert_eq!(late.problem(), Some(("already_paid".to_owned(), false)));
    harness.stop().await
}

#[tokio::test]
async fn no_second_attempt_while_the_first_is_unknown() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    harness.system.stop_service(Service::Psp.name()).await?;
    let order = harness.place().await?;
    let key = new_key("early");
    let open = harness.client.pay_again(order, &key, "pm_card_ok").await?;
    assert_eq!(open.status, 409, "{}", open.summary());
    assert_eq!(open.problem(), Some(("payment_open".to_owned(), true)));
    harness.system.start_service(Service::Psp.name()).await?;
    harness.expect_shipped_once(&[order]).await?;
    harness.stop().await
}

#[tokio::test]
async fn window_27_order_killed_after_attempt_commit() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let order = place_declined(&harness).await?;
    harness.arm(Service::Order, "pay_again.committed").await?;
    let key = new_key("again");
    let lost = harness.client.pay_again(order, &key, "pm_card_ok").await;
    assert!(lost.is_err(), "the response must be lost: {lost:?}");
    harness.expect_killed(Service::Order).await?;
    harness
        .system
        .wait_ready(Service::Order.name(), SETTLE_TIMEOUT)
        .await?;
    let again = harness.client.pay_again(order, &key, "pm_card_ok").await?;
    assert!(again.replayed, "{}", again.summary());
    harness.expect_shipped_once(&[order]).await?;
    harness.stop().await
}
