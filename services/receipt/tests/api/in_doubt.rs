//! SMTP has no idempotency key: after a lost response a mail is sent once more, and never again.

use testkit::smtp_sink::Action;

use crate::harness::Harness;

#[tokio::test]
async fn mail_with_a_lost_response_is_sent_again_unchanged() {
    for action in [Action::LoseReply, Action::Hang] {
        let harness = Harness::create().await;
        harness.misbehave(action, 1);
        let order = harness.log_new().await;
        harness.try_once().await;
        let row = harness.row(order).await;
        assert_eq!(row.state(), ("pending", 1, 1), "{row:?}");
        assert!(row.last_error.is_some());

        harness.pass_time().await;
        harness.try_once().await;
        assert_eq!(harness.row(order).await.state(), ("sent", 2, 2));
        let mails = harness.mails();
        assert_eq!(mails.len(), 2);
        assert_eq!(mails[0].text, mails[1].text, "the bytes are the same");
    }
}

#[tokio::test]
async fn mail_with_two_lost_responses_is_left_to_an_operator() {
    let harness = Harness::create().await;
    harness.misbehave(Action::LoseReply, 10);
    let order = harness.log_new().await;
    for _ in 0..5 {
        harness.try_once().await;
        harness.pass_time().await;
    }
    let row = harness.row(order).await;
    assert_eq!(row.state(), ("unknown", 2, 2));
    assert!(row.last_error.is_some());
    assert_eq!(harness.mails().len(), 2, "no third mail");
}

#[tokio::test]
async fn temporary_failures_do_not_count_as_tries_in_doubt() {
    let harness = Harness::create().await;
    let order = harness.log_new().await;
    for (action, state) in [
        (Action::RejectContent(451), ("pending", 1, 0)),
        (Action::LoseReply, ("pending", 2, 1)),
        (Action::RejectContent(421), ("pending", 3, 1)),
        (Action::Disconnect, ("pending", 4, 1)),
        (Action::LoseReply, ("unknown", 5, 2)),
    ] {
        harness.misbehave(action, 1);
        harness.pass_time().await;
        harness.try_once().await;
        assert_eq!(harness.row(order).await.state(), state, "{action:?}");
    }
    assert_eq!(harness.mails().len(), 2);
}

#[tokio::test]
async fn permanent_failure_after_a_try_in_doubt_is_unknown() {
    let harness = Harness::create().await;
    let order = harness.log_new().await;
    harness.misbehave(Action::LoseReply, 1);
    harness.try_once().await;
    harness.misbehave(Action::RejectContent(550), 1);
    harness.pass_time().await;
    harness.try_once().await;
    assert_eq!(harness.row(order).await.state(), ("unknown", 2, 1));
    assert_eq!(harness.mails().len(), 1);
}
