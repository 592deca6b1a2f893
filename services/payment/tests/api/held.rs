//! After a restore an operator holds charges: what may have been sent is looked up, and never sent.

use chrono::{TimeDelta, Utc};
use leases::Clock;
use payment::domain::ProviderLimits;
use serde_json::json;

use crate::harness::{Harness, LONG};
use crate::provider::{
    charge_of, key_cancelled, key_was_charged, mount_cancellation, mount_captures, mount_look_up,
    mount_refunds, request_bodies,
};
use crate::rejections::reject_within;
use crate::stepper::{LIMITS, Stepper};

fn held() -> ProviderLimits {
    ProviderLimits {
        hold_before: Some(Utc::now() + TimeDelta::hours(1)),
        ..LIMITS
    }
}

async fn step(harness: &Harness, limits: ProviderLimits) -> usize {
    harness.pass_time().await;
    let (pool, psp) = (harness.pool.clone(), harness.psp.uri());
    let mut stepper = Stepper::with(pool, &psp, LONG, Clock::default(), limits);
    let answers = stepper.call().await;
    harness.record(&answers).await.unwrap()
}

async fn charges(harness: &Harness) -> usize {
    request_bodies(&harness.psp, "POST", "/v1/charges")
        .await
        .len()
}

#[tokio::test]
async fn held_attempt_is_looked_up_and_not_sent() {
    let harness = Harness::create().await;
    let order = harness.open_new().await;
    mount_captures(&harness.psp).await;
    mount_look_up(&harness.psp, json!([])).await;
    for _ in 0..3 {
        assert_eq!(step(&harness, held()).await, 0);
        assert_eq!(harness.payment(order, 1).await.status, "unknown");
    }
    assert_eq!(charges(&harness).await, 0);
    // The operator ends the hold.
    assert_eq!(step(&harness, LIMITS).await, 1);
    assert_eq!(harness.payment(order, 1).await.status, "captured");
    assert_eq!(charges(&harness).await, 1);
}

#[tokio::test]
async fn held_attempt_that_was_charged_is_captured() {
    let harness = Harness::create().await;
    let order = harness.open_new().await;
    let charge = charge_of(order, "ch_1", &format!("pay:{order}:1"));
    mount_look_up(&harness.psp, json!([charge])).await;
    assert_eq!(step(&harness, held()).await, 1);
    assert_eq!(harness.payment(order, 1).await.status, "captured");
    assert_eq!(charges(&harness).await, 0);
}

/// This database counts no try, but the attempt may have been charged before the restore.
#[tokio::test]
async fn held_attempt_is_not_voided_without_an_answer() {
    for (was_charged, events) in [
        (false, &["payment.voided"][..]),
        (true, &["payment.captured", "payment.refunded"]),
    ] {
        let harness = Harness::create().await;
        let order = harness.open_new().await;
        let answer = match was_charged {
            true => key_was_charged(order, "ch_1"),
            false => key_cancelled(),
        };
        mount_cancellation(&harness.psp, answer).await;
        mount_refunds(&harness.psp).await;
        reject_within(&harness, order, 1, &held()).await;
        assert!(harness.event_types(order).await.is_empty());
        for _ in 0..2 {
            step(&harness, held()).await;
        }
        assert_eq!(harness.event_types(order).await, events);
        assert_eq!(charges(&harness).await, 0);
    }
}

#[tokio::test]
async fn newer_attempt_is_charged_during_a_hold() {
    let harness = Harness::create().await;
    let order = harness.open_new().await;
    mount_captures(&harness.psp).await;
    let before = ProviderLimits {
        hold_before: Some(Utc::now() - TimeDelta::hours(1)),
        ..LIMITS
    };
    assert_eq!(step(&harness, before).await, 1);
    assert_eq!(harness.payment(order, 1).await.status, "captured");
}
