//! Orders that were paid and do not ship: the money goes back, once.

use lab::client::psp::Fault;
use lab::service::Service;

use crate::world::{World, options};

#[tokio::test]
async fn what_is_not_in_stock_is_refunded_and_takes_nothing_from_the_shelf() -> anyhow::Result<()> {
    let world = World::start(options()).await?;
    let (order, other) = (world.place_out_of_stock().await?, world.place().await?);
    world.expect_end(order, "refunded").await?;
    assert_eq!(world.books(order).await?, (1, 1));
    let reason: String = sqlx::query_scalar("select reason from shipments where order_id = $1")
        .bind(order)
        .fetch_one(&world.databases.fulfilment)
        .await?;
    assert_eq!(reason, "out_of_stock");
    let key: String = sqlx::query_scalar("select idempotency_key from refunds")
        .fetch_one(&world.databases.psp)
        .await?;
    assert_eq!(key, format!("refund:{order}:1"));
    world.expect_shipped_once(&[other]).await?;
    world.stop().await
}

/// Window 14: payment dies at each place between two durable steps of a refund.
async fn kill_at(point: &str) -> anyhow::Result<()> {
    let world = World::start(options()).await?;
    world.arm(Service::Payment, point).await?;
    if point == "refund.in_flight" {
        let delay = Fault {
            point: "during_refund",
            action: "delay",
            delay_ms: Some(800),
            times: Some(1),
            reference: None,
        };
        world.set_fault(delay).await?;
    }
    let order = world.place_out_of_stock().await?;
    world.expect_killed(Service::Payment).await?;
    world.expect_end(order, "refunded").await?;
    assert_eq!(world.books(order).await?, (1, 1), "{point}");
    world.stop().await
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
    let world = World::start(options()).await?;
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
            world.set_fault(fault).await?;
            orders.push(world.place_out_of_stock().await?);
        }
    }
    for order in orders {
        world.expect_end(order, "refunded").await?;
        assert_eq!(world.books(order).await?, (1, 1));
    }
    let retried: i64 = sqlx::query_scalar("select count(*) from refunds where tries > 1")
        .fetch_one(&world.databases.payment)
        .await?;
    assert!(retried >= 6, "the faults must be met; {retried} were");
    world.stop().await
}
