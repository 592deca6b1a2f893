//! Attempts that are stored already leased by the process that consumes their event.

use std::time::Duration;

use chrono::Utc;
use payment::domain::ProviderLimits;
use payment::store::attempts::{self, NewAttempt, NewLease};
use uuid::Uuid;

use crate::harness::{Harness, LONG};
use crate::provider::mount_captures;
use crate::stepper::{LIMITS, RESEND_MAX};

/// Stores an attempt with a slot. Returns whether it is leased.
async fn store(harness: &Harness, new: NewAttempt, limits: &ProviderLimits) -> bool {
    let lease = NewLease {
        token: Some(Uuid::new_v4()),
        lease: LONG,
        attempts: &[true],
        limits,
    };
    let mut connection = harness.pool.acquire().await.unwrap();
    let leased = attempts::open(&mut connection, &[new], Some(&lease)).await;
    !leased.unwrap().is_empty()
}

#[tokio::test]
async fn attempt_stored_leased_is_left_to_its_process() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let order = Uuid::new_v4();
    let new = || harness.new_attempt("acme", order, 1);
    assert!(store(&harness, new(), &LIMITS).await);
    let stored = harness.payment(order, 1).await;
    assert_eq!((&*stored.status, stored.tries), ("pending", 1));
    assert_eq!(harness.stepper(LONG).lease().await, 0, "the lease is valid");

    assert!(!store(&harness, new(), &LIMITS).await, "it is known");
    let token = harness.payment(order, 1).await.lease_token;
    assert_eq!(token, stored.lease_token);

    // Its process died.
    harness.pass_time().await;
    assert_eq!(harness.step().await, 1);
    let payment = harness.payment(order, 1).await;
    assert_eq!((&*payment.status, payment.tries), ("captured", 2));
}

#[tokio::test]
async fn attempt_that_may_have_been_sent_is_not_stored_leased() {
    let harness = Harness::create().await;
    let mut old = harness.new_attempt("acme", Uuid::new_v4(), 1);
    old.requested_at = Utc::now() - RESEND_MAX - Duration::from_secs(60);
    assert!(!store(&harness, old, &LIMITS).await, "older than the key");

    let held = harness.new_attempt("acme", Uuid::new_v4(), 1);
    let limits = ProviderLimits {
        hold_before: Some(Utc::now() + LONG),
        ..LIMITS
    };
    assert!(!store(&harness, held, &limits).await, "after a restore");
    let leased = "select count(*) from payments where lease_token is not null or tries > 0";
    assert_eq!(harness.count(leased).await, 0);
}
