use std::time::Duration;

use testkit::smtp_sink::Action;

use crate::harness::{Harness, LONG, eventually};

#[tokio::test]
async fn a_sender_that_is_lost_after_the_mail_is_followed_by_one_more_and_no_third() {
    let harness = Harness::create().await;
    let order = harness.log_new().await;
    // They die with their lease: nobody will ever record what they did.
    let tried = harness.stepper(LONG).send().await;
    assert_eq!(tried.len(), 1);
    assert_eq!(harness.row(order).await.state(), ("pending", 1, 1));
    assert_eq!(harness.stepper(LONG).lease().await, 0, "the lease stands");
    harness.pass_time().await;
    assert_eq!(harness.stepper(LONG).send().await.len(), 1);
    assert_eq!(harness.row(order).await.state(), ("pending", 2, 2));

    harness.pass_time().await;
    assert_eq!(harness.stepper(LONG).lease().await, 0, "never a third time");
    let row = harness.row(order).await;
    assert_eq!(row.state(), ("unknown", 2, 2));
    assert!(row.last_error.unwrap().contains("lost"));
    assert_eq!(harness.mails().len(), 2);
}

#[tokio::test]
async fn a_lease_that_runs_out_by_itself_is_taken_over() {
    let harness = Harness::create().await;
    let order = harness.log_new().await;
    let lost = harness.stepper(Duration::from_millis(300)).send().await;
    let successor = harness.stepper(LONG);
    assert_eq!(successor.lease().await, 0, "not before the lease ran out");
    eventually("the lease runs out", async || successor.lease().await == 1).await;
    assert_eq!(harness.row(order).await.tries, 2);
    assert_eq!(harness.record(&lost).await, 0, "too late");
}

#[tokio::test]
async fn an_outcome_that_comes_after_its_lease_changes_nothing() {
    let harness = Harness::create().await;
    let order = harness.log_new().await;
    harness.misbehave(Action::RejectContent(451), 1);
    let zombie = harness.stepper(LONG).send().await;
    harness.pass_time().await;
    let successor = harness.stepper(LONG).send().await;
    let token = harness.row(order).await.lease_token;
    assert!(token.is_some());

    // What it says would take a doubt back that is no longer its own.
    assert_eq!(harness.record(&zombie).await, 0);
    let row = harness.row(order).await;
    assert_eq!(row.state(), ("pending", 2, 2));
    assert_eq!(row.lease_token, token, "the successor's lease stands");
    assert_eq!(harness.record(&successor).await, 1);
    assert_eq!(harness.row(order).await.status, "sent");
    assert_eq!(harness.record(&zombie).await, 0);
    assert_eq!(harness.mails().len(), 1);
}

#[tokio::test]
async fn a_sender_that_wakes_up_after_its_lease_sends_nothing() {
    let harness = Harness::create().await;
    let order = harness.log_new().await;
    let tried = harness.stepper(Duration::ZERO).send().await;
    assert_eq!(tried[0].outcome.as_str(), "not_sent");
    assert_eq!(harness.mails().len(), 0);
    // Nobody took it over, so its word counts.
    assert_eq!(harness.record(&tried).await, 1);
    assert_eq!(harness.row(order).await.state(), ("pending", 1, 0));
}
