//! Paid orders that do not ship are refunded once.

use endpoints::Service;
use endpoints::provider::Fault;

use crate::harness::Harness;

#[tokio::test]
async fn out_of_stock_order_is_refunded_and_takes_no_stock() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let (order, other) = (harness.place_out_of_stock().await?, harness.place().await?);
    harness.expect_end(order, "refunded").await?;
    assert_eq!(harness.books(order).await?, (1, 1));
    let reason: String = sqlx::query_scalar("select reason from shipments where order_id = $1")
        .bind(order)
        .fetch_one(&harness.databases.fulfilment)
        .await?;
    assert_eq!(reason, "out_of_stock");
    let key: String =
        sqlx::query_scalar("select idempotency_key from refunds where reference = $1")
            .bind(order.to_string())
            .fetch_one(&harness.databases.psp)
            .await?;
    assert_eq!(key, format!("refund:{order}:1"));
    harness.expect_shipped_once(&[other]).await?;
    harness.stop().await
}

/// Window 14: payment is killed between two durable steps of a refund.
async fn kill_at(point: &str) -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    harness.arm(Service::Payment, point).await?;
    if point == "refund.in_flight" {
        let delay = Fault {
            point: "during_refund",
            action: "delay",
            delay_ms: Some(800),
            times: Some(1),
            reference: None,
        };
        harness.set_fault(delay).await?;
    }
    let order = harness.place_out_of_stock().await?;
    harness.expect_killed(Service::Payment).await?;
    harness.expect_end(order, "refunded").await?;
    assert_eq!(harness.books(order).await?, (1, 1), "{point}");
    harness.stop().await
}

#[tokio::test]
async fn window_14_payment_killed_after_refund_lease() -> anyhow::Result<()> {
    kill_at("refund.leased").await
}

#[tokio::test]
async fn window_14_payment_killed_while_provider_refunds() -> anyhow::Result<()> {
    kill_at("refund.in_flight").await
}

#[tokio::test]
async fn window_14_payment_killed_after_refund_before_record() -> anyhow::Result<()> {
    kill_at("refund.answered").await
}

#[tokio::test]
async fn window_14_payment_killed_after_refund_record() -> anyhow::Result<()> {
    kill_at("refund.recorded").await
}

#[tokio::test]
async fn lost_refund_response_is_retried_with_the_same_key() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let mut orders = Vec::new();
    for point in ["before_refund", "during_refund", "after_refund"] {
        for action in ["drop", "error", "hang"] {
            let fault = Fault {
                point,
                action,
                delay_ms: None,
                times: Some(1),
                reference: None,
            };
            harness.set_fault(fault).await?;
            orders.push(harness.place_out_of_stock().await?);
        }
    }
    for order in &orders {
        harness.expect_end(*order, "refunded").await?;
        assert_eq!(harness.books(*order).await?, (1, 1));
    }
    let query = "select sum(tries - 1) from refunds where order_id = any($1)";
    let retried: i64 = sqlx::query_scalar(query)
        .bind(&orders)
        .fetch_one(&harness.databases.payment)
        .await?;
    assert!(
        retried >= 6,
        "the faults must have been applied; there were only {retried} retries"
    );
    harness.stop().await
}
