//! A result counts only under its lease; a lost sender is replaced.

use std::time::Duration;

use testkit::smtp_sink::Action;

use crate::harness::{Harness, LONG};

#[tokio::test]
async fn mail_of_lost_senders_is_tried_at_most_twice() {
    let harness = Harness::create().await;
    let order = harness.log_new().await;
    // These senders die with their lease: their results are never recorded.
    let tried = harness.stepper(LONG).send().await;
    assert_eq!(tried.len(), 1);
    assert_eq!(harness.row(order).await.state(), ("pending", 1, 1));
    assert_eq!(harness.stepper(LONG).lease().await, 0, "the lease is valid");
    harness.pass_time().await;
    assert_eq!(harness.stepper(LONG).send().await.len(), 1);
    assert_eq!(harness.row(order).await.state(), ("pending", 2, 2));

    harness.pass_time().await;
    assert_eq!(harness.stepper(LONG).lease().await, 0, "no third try");
    let row = harness.row(order).await;
    assert_eq!(row.state(), ("unknown", 2, 2));
    assert!(row.last_error.unwrap().contains("may have been delivered"));
    assert_eq!(harness.mails().len(), 2);
}

#[tokio::test]
async fn expired_lease_is_taken_over() {
    let harness = Harness::create().await;
    let order = harness.log_new().await;
    let lost = harness.stepper(LONG).send().await;
    let successor = harness.stepper(LONG);
    assert_eq!(successor.lease().await, 0, "not before the lease expired");
    harness.pass_time().await;
    assert_eq!(successor.lease().await, 1);
    assert_eq!(harness.row(order).await.tries, 2);
    assert_eq!(harness.record(&lost).await, 0, "stale result");
}

#[tokio::test]
async fn stale_result_changes_nothing() {
    let harness = Harness::create().await;
    let order = harness.log_new().await;
    harness.misbehave(Action::RejectContent(451), 1);
    let zombie = harness.stepper(LONG).send().await;
    harness.pass_time().await;
    let successor = harness.stepper(LONG).send().await;
    let token = harness.row(order).await.lease_token;
    assert!(token.is_some());

    // The stale result would remove a try in doubt that belongs to the successor.
    assert_eq!(harness.record(&zombie).await, 0);
    let row = harness.row(order).await;
    assert_eq!(row.state(), ("pending", 2, 2));
    assert_eq!(
        row.lease_token, token,
        "the lease of the successor is valid"
    );
    assert_eq!(harness.record(&successor).await, 1);
    assert_eq!(harness.row(order).await.status, "sent");
    assert_eq!(harness.record(&zombie).await, 0);
    assert_eq!(harness.mails().len(), 1);
}

#[tokio::test]
async fn sender_that_resumes_after_its_lease_sends_nothing() {
    let harness = Harness::create().await;
    let order = harness.log_new().await;
    let tried = harness.stepper(Duration::ZERO).send().await;
    assert_eq!(tried[0].outcome.as_str(), "not_sent");
    assert_eq!(harness.mails().len(), 0);
    // No other sender took the mail, so the result is recorded.
    assert_eq!(harness.record(&tried).await, 1);
    assert_eq!(harness.row(order).await.state(), ("pending", 1, 0));
}
