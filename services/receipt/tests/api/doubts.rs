//! SMTP knows no key: after an answer that is lost a mail is sent once more, and never again.

use testkit::smtp_sink::Action;

use crate::harness::Harness;

#[tokio::test]
async fn a_mail_whose_answer_is_lost_is_sent_once_more_under_the_same_id() {
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
        assert_eq!(mails[0].text, mails[1].text, "to the last byte");
    }
}

#[tokio::test]
async fn a_mail_whose_answer_is_lost_twice_is_left_to_a_person() {
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
    assert_eq!(harness.mails().len(), 2, "not a third time");
}

#[tokio::test]
async fn between_two_doubts_a_server_may_say_not_now_for_as_long_as_it_likes() {
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
async fn a_refusal_after_a_doubt_does_not_claim_that_nothing_arrived() {
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
