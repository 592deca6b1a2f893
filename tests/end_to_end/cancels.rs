//! Cancellation requests. Each order ends as cancelled, refunded or shipped, and the money adds up.

use std::time::{Duration, Instant};

use endpoints::Service;
use endpoints::client::{new_key, order_body};
use endpoints::provider::Fault;
use uuid::Uuid;

use crate::harness::{Harness, SETTLE_TIMEOUT};

/// Orders in each race.
const RACES: usize = 40;

/// A fault that applies once, to any order.
fn fault(point: &'static str, action: &'static str) -> Fault {
    Fault {
        point,
        action,
        delay_ms: (action == "delay").then_some(800),
        times: Some(1),
        reference: None,
    }
}

/// A fault that applies to each try of one order, until it is cleared.
fn lasting(point: &'static str, order: Uuid) -> Fault {
    Fault {
        times: None,
        reference: Some(order.to_string()),
        ..fault(point, "hang")
    }
}

async fn attempt(harness: &Harness, order: Uuid) -> anyhow::Result<(String, i32)> {
    let query = "select status, tries from payments where order_id = $1";
    let row = sqlx::query_as(query).bind(order);
    Ok(row.fetch_one(&harness.databases.payment).await?)
}

#[tokio::test]
async fn uncharged_order_is_cancelled_without_a_charge() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    harness.system.stop_service(Service::Payment.name()).await?;
    let order = harness.place().await?;
    assert_eq!(harness.cancel(order).await?, 204);
    assert_eq!(harness.cancel(order).await?, 204, "again");
    wait_for_decision(&harness, order).await?;
    harness
        .system
        .start_service(Service::Payment.name())
        .await?;
    harness.expect_end(order, "cancelled").await?;
    assert_eq!(harness.books(order).await?, (0, 0));
    assert_eq!(attempt(&harness, order).await?, ("voided".to_owned(), 0));
    assert_eq!(harness.cancel(order).await?, 204, "after the end");
    harness.stop().await
}

/// Waits until fulfilment has decided.
pub(crate) async fn wait_for_decision(harness: &Harness, order: Uuid) -> anyhow::Result<()> {
    let decided = async || -> anyhow::Result<bool> {
        let query = "select exists (select from shipments where order_id = $1)";
        let row = sqlx::query_scalar(query).bind(order);
        Ok(row.fetch_one(&harness.databases.fulfilment).await?)
    };
    let wait = async {
        while !decided().await? {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(SETTLE_TIMEOUT, wait).await?
}

#[tokio::test]
async fn unknown_attempt_of_cancelled_order_is_settled_by_its_key() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    // The first is charged, and every response is lost. The requests for the second are lost before the charge.
    // So neither has an outcome before payment cancels its key.
    let (charged, uncharged) = (Uuid::now_v7(), Uuid::now_v7());
    harness.set_fault(lasting("after_charge", charged)).await?;
    harness
        .set_fault(lasting("before_charge", uncharged))
        .await?;
    for order in [charged, uncharged] {
        harness.put(order).await?;
    }
    harness.wait_for_charge(charged).await?;
    wait_for_try(&harness, uncharged).await?;
    for order in [charged, uncharged] {
        assert_eq!(harness.cancel(order).await?, 204);
    }
    harness.expect_end(charged, "refunded").await?;
    assert_eq!(harness.books(charged).await?, (1, 1));
    harness.expect_end(uncharged, "cancelled").await?;
    assert_eq!(harness.books(uncharged).await?, (0, 0));
    harness.expect_settled().await?;
    harness.stop().await
}

#[tokio::test]
async fn shipped_order_cannot_be_cancelled() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let order = harness.place().await?;
    harness.expect_shipped_once(&[order]).await?;
    let before = harness.client.order(order).await?.version;
    assert_eq!(harness.cancel(order).await?, 409);
    assert_eq!(harness.client.order(order).await?.version, before);
    harness.expect_shipped_once(&[order]).await?;
    harness.stop().await
}

/// Places orders and cancels each after another part of this time, so that the cancellation requests arrive in
/// every state of an order. Returns the final statuses.
async fn race(harness: &Harness, spread: Duration) -> anyhow::Result<Vec<String>> {
    let races = (0..RACES).map(|number| async move {
        let key = new_key("race");
        let order = harness.place_with(&key, &order_body(1)).await?;
        tokio::time::sleep(spread * number as u32 / RACES as u32).await;
        let status = harness.cancel(order).await?;
        anyhow::ensure!([204, 409].contains(&status), "{status}");
        Ok((order, status))
    });
    let raced = futures_util::future::try_join_all(races).await?;
    let orders: Vec<Uuid> = raced.iter().map(|(order, _)| *order).collect();
    let ends = harness.ends(&orders).await?;
    harness.expect_settled().await?;
    for ((order, status), end) in raced.iter().zip(&ends) {
        let expected = match &**end {
            "shipped" => (1, 0),
            "refunded" => (1, 1),
            "cancelled" => (0, 0),
            other => anyhow::bail!("{order} ended as {other}"),
        };
        assert_eq!(harness.books(*order).await?, expected, "{order} is {end}");
        assert!(*status == 204 || end == "shipped", "{order} is {end}");
    }
    Ok(ends)
}

/// Rounds after which a side that has won no race fails the test.
const ROUNDS_MAX: u32 = 10;

/// How long an order takes to ship on this machine now.
async fn time_to_ship(harness: &Harness) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let order = harness.place().await?;
    let shipped = harness
        .client
        .wait_for_status(order, "shipped", SETTLE_TIMEOUT);
    shipped.await?;
    Ok(started.elapsed())
}

#[tokio::test]
async fn cancellations_racing_charge_and_shipment_end_one_way() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let mut ends = Vec::new();
    let count = |ends: &[String], wanted: &[&str]| {
        let found = ends.iter().filter(|it| wanted.contains(&it.as_str()));
        found.count()
    };
    for round in 1.. {
        // From orders that are cancelled immediately to orders that have time to ship, also if forty at once take
        // longer than one.
        let spread = time_to_ship(&harness).await? * round;
        ends.extend(race(&harness, spread).await?);
        let (shipped, cancelled) = (
            count(&ends, &["shipped"]),
            count(&ends, &["cancelled", "refunded"]),
        );
        // Otherwise the test proves nothing: each side must win at least one race.
        if round >= 3 && shipped > 0 && cancelled > 0 {
            break;
        }
        anyhow::ensure!(round < ROUNDS_MAX, "one side never won: {ends:?}");
    }
    harness.stop().await
}

#[tokio::test]
async fn cancellations_racing_lost_responses_end_one_way() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    for (point, action) in [
        ("before_charge", "drop"),
        ("during_charge", "delay"),
        ("after_charge", "drop"),
        ("before_cancel", "drop"),
        ("after_cancel", "drop"),
    ] {
        for _ in 0..8 {
            harness.set_fault(fault(point, action)).await?;
        }
    }
    race(&harness, Duration::from_millis(200)).await?;
    harness.stop().await
}

/// Windows 18 and 28: order is killed after it stored the cancellation request, or payment is
/// killed while it cancels the key.
async fn kill_at(service: Service, point: &'static str) -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    harness.arm(service, point).await?;
    // No try succeeds: the order would ship before the cancellation request arrives.
    let order = Uuid::now_v7();
    harness.set_fault(lasting("before_charge", order)).await?;
    if point == "cancel.in_flight" {
        harness.set_fault(fault("before_cancel", "delay")).await?;
    }
    harness.put(order).await?;
    wait_for_try(&harness, order).await?;
    assert_eq!(harness.cancel(order).await?, 204);
    harness.expect_killed(service).await?;
    harness.expect_end(order, "cancelled").await?;
    assert_eq!(harness.books(order).await?, (0, 0));
    harness.stop().await
}

/// Waits until a charger has tried to charge the order.
async fn wait_for_try(harness: &Harness, order: Uuid) -> anyhow::Result<()> {
    let wait = async {
        while !matches!(attempt(harness, order).await, Ok((_, tries)) if tries > 0) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    Ok(tokio::time::timeout(SETTLE_TIMEOUT, wait).await?)
}

#[tokio::test]
async fn window_18_order_killed_after_cancel_request_commit() -> anyhow::Result<()> {
    kill_at(Service::Order, "cancel.committed").await
}

#[tokio::test]
async fn window_28_payment_killed_while_provider_cancels_key() -> anyhow::Result<()> {
    kill_at(Service::Payment, "cancel.in_flight").await
}

#[tokio::test]
async fn window_28_payment_killed_after_key_cancel() -> anyhow::Result<()> {
    kill_at(Service::Payment, "cancel.answered").await
}
