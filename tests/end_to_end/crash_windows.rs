//! A process is killed in each window between two durable steps. The numbers are those of the
//! crash-window table in ARCHITECTURE.md.

use endpoints::Service;
use endpoints::client::{new_key, order_body};
use endpoints::provider::Fault;

use crate::harness::Harness;

/// Orders placed around each crash: some before the process reaches the point, some after.
const ORDERS: usize = 5;

/// Arms the point, places orders, waits for the kill, and checks that every order is charged once.
async fn kill_at(service: Service, point: &str) -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let mut orders = vec![harness.place().await?];
    harness.expect_shipped_once(&orders).await?;
    harness.arm(service, point).await?;
    orders.extend(harness.place_many(ORDERS).await?);
    harness.expect_killed(service).await?;
    orders.push(harness.place().await?);
    harness.expect_shipped_once(&orders).await?;
    harness.stop().await
}

macro_rules! windows {
    ($($name:ident: $service:ident at $point:literal;)+) => {
        $(#[tokio::test]
        async fn $name() -> anyhow::Result<()> {
            kill_at(Service::$service, $point).await
        })+
    };
}

windows! {
    window_1_order_killed_before_intake_commit: Order at "intake.received";
    window_3_order_relay_killed_before_produce: Order at "relay.claimed";
    window_4_order_relay_killed_after_produce: Order at "relay.produced";
    window_4_payment_relay_killed_after_produce: Payment at "relay.produced";
    window_5_order_relay_killed_before_mark: Order at "relay.acknowledged";
    window_5_fulfilment_relay_killed_before_mark: Fulfilment at "relay.acknowledged";
    window_6_payment_killed_before_consumer_commit: Payment at "inbox.handled";
    window_7_payment_killed_before_offset_commit: Payment at "inbox.committed";
    window_8_payment_killed_after_lease: Payment at "charge.leased";
    window_10_payment_killed_after_charge_before_record: Payment at "charge.answered";
    window_11_payment_killed_after_record: Payment at "charge.recorded";
    window_12_fulfilment_killed_before_commit: Fulfilment at "inbox.handled";
    window_12_fulfilment_killed_after_commit: Fulfilment at "inbox.committed";
    window_13_order_killed_before_applying_event: Order at "inbox.handled";
    window_13_order_killed_after_applying_event: Order at "inbox.committed";
}

#[tokio::test]
async fn window_2_order_killed_after_commit_retry_is_replay() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    harness.arm(Service::Order, "intake.committed").await?;
    let (key, body) = (new_key("window-2"), order_body(2));
    let first = harness.client.send(Some(&key), &body).await;
    assert!(first.is_err(), "the response must be lost: {first:?}");
    harness.expect_killed(Service::Order).await?;
    let again = harness.client.place(&key, &body).await?;
    assert_eq!(
        (again.status, again.replayed),
        (201, true),
        "{}",
        again.summary()
    );
    harness.expect_shipped_once(&[again.order_id()?]).await?;
    harness.stop().await
}

/// Payment is killed while the provider holds the call, before or after the charge.
async fn kill_in_flight(point: &'static str) -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    harness.arm(Service::Payment, "charge.in_flight").await?;
    harness
        .set_fault(Fault {
            point,
            action: "delay",
            delay_ms: Some(800),
            times: Some(1),
            reference: None,
        })
        .await?;
    let order = harness.place().await?;
    harness.expect_killed(Service::Payment).await?;
    harness.expect_shipped_once(&[order]).await?;
    harness.stop().await
}

#[tokio::test]
async fn window_9_payment_killed_before_provider_charges() -> anyhow::Result<()> {
    kill_in_flight("during_charge").await
}

#[tokio::test]
async fn window_9_payment_killed_after_provider_charged() -> anyhow::Result<()> {
    kill_in_flight("after_charge").await
}
