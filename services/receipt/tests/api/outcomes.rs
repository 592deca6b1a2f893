//! What each behaviour of the mail server means for the mail.

use receipt::config::TlsMode;
use testkit::smtp_sink::Action;
use uuid::Uuid;

use crate::harness::{Harness, LONG, Row};
use crate::stepper::Stepper;

/// Longest backoff of the recorder in these tests.
const BACKOFF_MAX_S: f64 = 20.0;

/// The first try hits the fault and delivers nothing; the second is accepted.
async fn not_sent_at_first(action: Action) -> Row {
    let harness = Harness::create().await;
    harness.misbehave(action, 1);
    let order = harness.log_new().await;
    harness.try_once().await;
    let between = harness.row(order).await;
    assert_eq!(between.state(), ("pending", 1, 0), "{between:?}");
    assert_eq!(between.lease_token, None);
    assert!(between.due_in_s > 0.5, "no backoff: {between:?}");
    assert!(between.due_in_s <= BACKOFF_MAX_S, "{between:?}");
    assert_eq!(harness.mails().len(), 0);
    assert_eq!(harness.try_once().await, 0, "the mail is not due yet");

    harness.pass_time().await;
    harness.try_once().await;
    assert_eq!(harness.row(order).await.state(), ("sent", 2, 1));
    assert_eq!(harness.mails().len(), 1);
    between
}

#[tokio::test]
async fn temporary_failure_is_retried() {
    for action in [Action::RejectContent(451), Action::RejectRecipient(450)] {
        let between = not_sent_at_first(action).await;
        let error = between.last_error.unwrap();
        let (code, text) = error.split_once(' ').unwrap();
        assert!(code.starts_with("45") && !text.is_empty(), "{error}");
    }
}

#[tokio::test]
async fn connection_lost_before_the_content_is_retried() {
    not_sent_at_first(Action::Disconnect).await;
}

#[tokio::test]
async fn unreachable_server_is_retried_without_limit() {
    let harness = Harness::create().await;
    let order = harness.log_new().await;
    for tries in 1..=5 {
        harness.pass_time().await;
        let tried = Stepper::new(&harness, 1, LONG).send().await;
        harness.record(&tried).await;
        assert_eq!(harness.row(order).await.state(), ("pending", tries, 0));
    }
    harness.pass_time().await;
    harness.try_once().await;
    assert_eq!(harness.row(order).await.state(), ("sent", 6, 1));
    assert_eq!(harness.mails().len(), 1);
}

#[tokio::test]
async fn required_encryption_is_never_skipped() {
    for tls in [TlsMode::Starttls, TlsMode::Implicit] {
        let harness = Harness::create().await;
        let order = harness.log_new().await;
        let tried = Stepper::with_tls(&harness, harness.smtp_port, LONG, tls)
            .send()
            .await;
        harness.record(&tried).await;
        let row = harness.row(order).await;
        assert_eq!(row.state(), ("pending", 1, 0), "{row:?}");
        assert_eq!(harness.mails().len(), 0);
    }
}

#[tokio::test]
async fn permanent_failure_is_not_retried() {
    for action in [Action::RejectContent(554), Action::RejectRecipient(550)] {
        let harness = Harness::create().await;
        harness.misbehave(action, 1);
        let order = harness.log_new().await;
        harness.try_once().await;
        let row = harness.row(order).await;
        assert_eq!(row.state(), ("failed", 1, 0));
        assert!(row.last_error.unwrap().starts_with("55"));
        harness.pass_time().await;
        assert_eq!(harness.try_once().await, 0);
        assert_eq!(harness.mails().len(), 0);
    }
}

/// One mail fails and one is accepted; neither affects the other.
#[tokio::test]
async fn outcomes_of_one_batch_are_independent() {
    let harness = Harness::create().await;
    let orders: Vec<Uuid> = [harness.log_new().await, harness.log_new().await].into();
    harness.misbehave(Action::RejectContent(550), 1);
    assert_eq!(harness.try_once().await, 2);
    let mut statuses = Vec::new();
    for order in orders {
        statuses.push(harness.row(order).await.status);
    }
    statuses.sort();
    assert_eq!(statuses, ["failed", "sent"]);
}
