//! Direct charges, requested over HTTP without an order. Each is made once, despite kills and retries.

use std::collections::HashSet;
use std::time::Duration;

use endpoints::Service;
use endpoints::client::new_key;
use endpoints::provider::Fault;
use futures_util::future::{join_all, try_join_all};
use uuid::Uuid;

use crate::harness::{Harness, options};
use crate::payer::{Payer, charge, expect_charged_once, payment_id};

const PARALLEL: usize = 20;

fn delay(point: &'static str, delay_ms: u64, times: Option<u32>) -> Fault {
    Fault {
        action: "delay",
        delay_ms: Some(delay_ms),
        ..hang(point, times)
    }
}

fn hang(point: &'static str, times: Option<u32>) -> Fault {
    Fault {
        point,
        action: "hang",
        delay_ms: None,
        times,
        reference: None,
    }
}

#[tokio::test]
async fn repeated_direct_charge_is_made_once() -> anyhow::Result<()> {
    let harness = Harness::start(options()).await?;
    let payer = Payer::of(&harness)?;
    let key = new_key("direct");
    let first = payer.send(&key, &charge(5_000)).await?;
    assert_eq!((first.status, first.replayed), (201, false));
    let again = payer.send(&key, &charge(5_000)).await?;
    assert_eq!((again.status, again.replayed), (201, true));
    assert_eq!(again.body, first.body);
    let other = payer.send(&key, &charge(5_001)).await?;
    assert_eq!(other.summary(), "422 idempotency_key_reused");

    let (key, body) = (new_key("parallel"), charge(700));
    let responses = try_join_all((0..PARALLEL).map(|_| payer.send(&key, &body))).await?;
    for response in responses.iter().filter(|response| response.status != 201) {
        assert_eq!(response.summary(), "409 idempotency_key_in_flight");
    }
    let firsts = responses.iter().filter(|response| response.status == 201);
    assert_eq!(firsts.filter(|response| !response.replayed).count(), 1);
    let again = try_join_all((0..PARALLEL).map(|_| payer.pay(&key, &body))).await?;
    let ids: anyhow::Result<HashSet<Uuid>> = again.iter().map(payment_id).collect();
    let ids = ids?;
    assert_eq!(ids.len(), 1);
    let paid = [payment_id(&first)?, ids.into_iter().next().unwrap()];
    expect_charged_once(&harness, &paid).await?;

    // Direct charges publish no event, and the totals still add up when an order is placed as well.
    let events: i64 = sqlx::query_scalar("select count(*) from outbox")
        .fetch_one(&harness.databases.payment)
        .await?;
    assert_eq!(events, 0);
    let order = harness.place().await?;
    harness.expect_shipped_once(&[order]).await?;
    harness.stop().await
}

#[tokio::test]
async fn retries_replay_a_decline() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let payer = Payer::of(&harness)?;
    let (key, mut body) = (new_key("declined"), charge(5_000));
    body["payment_method"] = "pm_card_insufficient_funds".into();
    let first = payer.send(&key, &body).await?;
    assert_eq!(first.summary(), "402 payment_declined");
    assert!(
        first
            .body
            .contains(r#""decline_code":"insufficient_funds""#)
    );
    let again = payer.send(&key, &body).await?;
    assert!(again.replayed);
    assert_eq!(again.body, first.body);
    harness.expect_settled().await?;
    harness.stop().await
}

/// Payment is killed during the first request. A client that retries still gets the outcome.
async fn kill_at(point: &str, fault: Option<Fault>) -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let payer = Payer::of(&harness)?;
    harness.arm(Service::Payment, point).await?;
    if let Some(fault) = fault {
        harness.set_fault(fault).await?;
    }
    let (key, body) = (new_key("window"), charge(5_000));
    let lost = payer.send(&key, &body).await;
    assert!(lost.is_err(), "the response must be lost: {lost:?}");
    harness.expect_killed(Service::Payment).await?;
    let outcome = payer.pay(&key, &body).await?;
    assert_eq!((outcome.status, outcome.replayed), (201, true));
    let id = payment_id(&outcome)?;
    assert_eq!(payer.payment(id).await?["status"], "captured");
    expect_charged_once(&harness, &[id]).await?;
    harness.stop().await
}

#[tokio::test]
async fn window_19_payment_killed_after_direct_charge_commit() -> anyhow::Result<()> {
    kill_at("direct.committed", None).await
}

#[tokio::test]
async fn window_19_payment_killed_after_direct_charge_lease() -> anyhow::Result<()> {
    kill_at("charge.leased", None).await
}

#[tokio::test]
async fn window_19_payment_killed_before_direct_charge() -> anyhow::Result<()> {
    let fault = delay("during_charge", 800, Some(1));
    kill_at("charge.in_flight", Some(fault)).await
}

#[tokio::test]
async fn window_19_payment_killed_after_direct_charge() -> anyhow::Result<()> {
    let fault = delay("after_charge", 800, Some(1));
    kill_at("charge.in_flight", Some(fault)).await
}

#[tokio::test]
async fn window_19_payment_killed_before_direct_record() -> anyhow::Result<()> {
    kill_at("charge.answered", None).await
}

#[tokio::test]
async fn window_19_payment_killed_after_direct_record() -> anyhow::Result<()> {
    kill_at("charge.recorded", None).await
}

#[tokio::test]
async fn slow_direct_charge_returns_202_then_its_outcome() -> anyhow::Result<()> {
    let mut options = options();
    let wait = ("DIRECT_WAIT_MS".to_owned(), "100".to_owned());
    options.env.payment.push(wait);
    let harness = Harness::start(options).await?;
    let payer = Payer::of(&harness)?;
    // The first response never arrives. The outcome comes from the next try, after payment's time-out.
    harness.set_fault(hang("after_charge", Some(1))).await?;
    let (key, body) = (new_key("slow"), charge(5_000));
    let accepted = payer.send(&key, &body).await?;
    assert_eq!(accepted.status, 202, "{}", accepted.body);
    assert!(accepted.retry_after.is_some());
    let id = payment_id(&accepted)?;
    let status = payer.payment(id).await?["status"].clone();
    assert!(["pending", "unknown", "captured"].contains(&status.as_str().unwrap_or_default()));

    let outcome = payer.pay(&key, &body).await?;
    assert_eq!((outcome.status, outcome.replayed), (201, true));
    assert_eq!(payment_id(&outcome)?, id);
    expect_charged_once(&harness, &[id]).await?;
    harness.stop().await
}

#[tokio::test]
async fn impatient_clients_with_five_sends_are_charged_once() -> anyhow::Result<()> {
    const PAYMENTS: usize = 40;
    const SENDS: usize = 5;
    let harness = Harness::shared().await?;
    let payer = Payer::of(&harness)?;
    // No provider response arrives, so every client hangs up.
    let impatient = Payer::with_patience(&harness, Duration::from_millis(150))?;
    harness.set_fault(hang("after_charge", None)).await?;
    let keys: Vec<String> = (0..PAYMENTS).map(|_| new_key("storm")).collect();
    let body = charge(5_000);
    let storms = keys.iter().map(|key| async {
        let mut hung_up = 0;
        for _ in 0..SENDS {
            hung_up += usize::from(impatient.send(key, &body).await.is_err());
        }
        hung_up
    });
    let counts = join_all(storms).await;
    let hung_up = counts.iter().filter(|count| **count > 0).count();
    assert_eq!(
        hung_up, PAYMENTS,
        "each client must have hung up: {counts:?}"
    );

    harness.clear_faults().await?;
    let outcomes = try_join_all(keys.iter().map(|key| payer.pay(key, &body))).await?;
    let ids: anyhow::Result<HashSet<Uuid>> = outcomes.iter().map(payment_id).collect();
    let ids: Vec<Uuid> = ids?.into_iter().collect();
    assert_eq!(ids.len(), PAYMENTS);
    expect_charged_once(&harness, &ids).await?;
    harness.stop().await
}

/// A client may choose the id of a direct charge for an order. Both are paid.
#[tokio::test]
async fn order_under_the_id_of_a_direct_charge_ships() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let payer = Payer::of(&harness)?;
    let paid = payer.pay(&new_key("direct"), &charge(700)).await?;
    let id = payment_id(&paid)?;
    harness.put(id).await?;
    harness.expect_shipped_once(&[id]).await?;
    let parked: i64 = sqlx::query_scalar("select count(*) from parked_messages")
        .fetch_one(&harness.databases.payment)
        .await?;
    assert_eq!(parked, 0);
    harness.stop().await
}
