//! Orders that were paid and do not ship: the money goes back, once.

use endpoints::Service;
use endpoints::provider::Fault;

use crate::harness::{Harness, options};

#[tokio::test]
async fn what_is_not_in_stock_is_refunded_and_takes_nothing_from_the_shelf() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    let (order, other) = (harness.place_out_of_stock().await?, harness.place().await?);
    harness.expect_end(order, "refunded").await?;
    assert_eq!(harness.books(order).await?, (1, 1));
    let reason: String = sqlx::query_scalar("select reason from shipments where order_id = $1")
        .bind(order)
        .fetch_one(&harness.databases.fulfilment)
        .await?;
    assert_eq!(reason, "out_of_stock");
    let key: String = sqlx::query_scalar("select idempotency_key from refunds")
        .fetch_one(&harness.databases.psp)
        .await?;
    assert_eq!(key, format!("refund:{order}:1"));
    harness.expect_shipped_once(&[other]).await?;
    harness.stop().await
}

/// Window 14: payment dies at each place between two durable steps of a refund.
async fn kill_at(point: &str) -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
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
async fn window_14_payment_dies_after_the_refund_s_lease() -> anyhow::Result<()> {
    kill_at("refund.leased").await
}

#[tokio::test]
async fn window_14_payment_dies_while_the_provider_has_the_refund() -> anyhow::Result<()> {
    kill_at("refund.in_flight").await
}

#[tokio::test]
async fn window_14_payment_dies_after_the_refund_before_the_record() -> anyhow::Result<()> {
    kill_at("refund.answered").await
}

#[tokio::test]
async fn window_14_payment_dies_after_the_refund_s_record() -> anyhow::Result<()> {
    kill_at("refund.recorded").await
}

#[tokio::test]
async fn a_refund_s_answer_lost_at_any_point_is_asked_for_again() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
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
    for order in orders {
        harness.expect_end(order, "refunded").await?;
        assert_eq!(harness.books(order).await?, (1, 1));
    }
    let retried: i64 = sqlx::query_scalar("select count(*) from refunds where tries > 1")
        .fetch_one(&harness.databases.payment)
        .await?;
    assert!(retried >= 6, "the faults must be met; {retried} were");
    harness.stop().await
}
