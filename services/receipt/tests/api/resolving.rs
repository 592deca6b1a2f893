//! An operator resolves a mail in doubt: sends it again or settles it, once per decision.

use reqwest::StatusCode;
use serde_json::{Value, json};
use testkit::smtp_sink::Action;
use uuid::Uuid;

use crate::application::{Running, start};
use crate::harness::Harness;
use crate::held::{list, post};

/// A mail that may have been delivered twice, and one that the server rejected.
async fn in_doubt(harness: &Harness) -> (Uuid, Uuid) {
    let unknown = harness.log_new().await;
    harness.misbehave(Action::LoseReply, 2);
    for _ in 0..2 {
        harness.try_once().await;
        harness.pass_time().await;
    }
    assert_eq!(harness.row(unknown).await.state(), ("unknown", 2, 2));
    let failed = harness.log_new().await;
    harness.misbehave(Action::RejectContent(550), 1);
    harness.try_once().await;
    assert_eq!(harness.row(failed).await.state(), ("failed", 1, 0));
    (unknown, failed)
}

/// The order id serves as the event id.
async fn resolve(running: &Running, mail: Uuid, tries: i32, action: &str) -> (StatusCode, Value) {
    let body = json!({"event_id": mail, "mail_type": "receipt", "tries": tries,
                      "action": action});
    post(running, "resolve", body).await
}

async fn resolutions(harness: &Harness) -> Vec<(Uuid, i32, String, String)> {
    let query = "select event_id, tries, action, reason from mail_resolutions order by created_at";
    sqlx::query_as(query)
        .fetch_all(&harness.pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn mail_in_doubt_is_sent_again_once_per_decision() {
    let harness = Harness::create().await;
    let (unknown, failed) = in_doubt(&harness).await;
    let before = harness.mails().len();
    let running = start(&harness, &[]).await;
    let waiting = list(&running, "status=unknown").await;
    assert_eq!(waiting[0]["event_id"], unknown.to_string());
    for (mail, tries) in [(unknown, 2), (failed, 1)] {
        for _ in 0..3 {
            let (status, body) = resolve(&running, mail, tries, "send").await;
            assert_eq!(status, StatusCode::OK, "{body}");
        }
    }
    harness.sent(2).await;
    // Repeats after the mail is sent change nothing either, and the other decision comes too late.
    for (mail, tries) in [(unknown, 2), (failed, 1)] {
        let (status, body) = resolve(&running, mail, tries, "send").await;
        assert_eq!((status, &body["status"]), (StatusCode::OK, &json!("sent")));
        for (tries, action) in [(tries, "settle"), (tries + 1, "send"), (7, "settle")] {
            let (status, body) = resolve(&running, mail, tries, action).await;
            assert_eq!(status, StatusCode::CONFLICT, "{body}");
            assert_eq!(body["code"], "not_in_doubt");
        }
    }
    running.stop().await;
    assert_eq!(harness.row(unknown).await.state(), ("sent", 3, 2));
    assert_eq!(harness.row(failed).await.state(), ("sent", 2, 1));
    assert_eq!(harness.mails().len(), before + 2);
    let reason = testkit::operator::REASON.to_owned();
    let send = |mail, tries| (mail, tries, "send".to_owned(), reason.clone());
    assert_eq!(
        resolutions(&harness).await,
        [send(unknown, 2), send(failed, 1)]
    );
}

#[tokio::test]
async fn mail_in_doubt_is_settled_without_being_sent() {
    let harness = Harness::create().await;
    let (unknown, failed) = in_doubt(&harness).await;
    let before = harness.mails().len();
    let running = start(&harness, &[]).await;
    for (mail, tries) in [(unknown, 2), (failed, 1)] {
        for _ in 0..2 {
            let (status, body) = resolve(&running, mail, tries, "settle").await;
            assert_eq!((status, &body["status"]), (StatusCode::OK, &json!("sent")));
            assert!(body["sent_at"].is_string());
        }
        let (status, _) = resolve(&running, mail, tries, "send").await;
        assert_eq!(status, StatusCode::CONFLICT);
    }
    running.stop().await;
    assert_eq!(harness.row(unknown).await.state(), ("sent", 2, 2));
    assert_eq!(resolutions(&harness).await.len(), 2);
    assert_eq!(harness.mails().len(), before);
}

/// An operator's decision leaves one try that may deliver the mail. Then the mail is in doubt again.
#[tokio::test]
async fn resent_mail_without_a_response_needs_a_new_decision() {
    let harness = Harness::create().await;
    let (unknown, _) = in_doubt(&harness).await;
    let running = start(&harness, &[]).await;
    harness.misbehave(Action::LoseReply, 1);
    let (status, _) = resolve(&running, unknown, 2, "send").await;
    assert_eq!(status, StatusCode::OK);
    crate::harness::eventually("the mail is in doubt again", async || {
        harness.row(unknown).await.state() == ("unknown", 3, 2)
    })
    .await;
    // A late repeat of the first decision must not send a fourth mail.
    let (status, body) = resolve(&running, unknown, 2, "send").await;
    assert_eq!(
        (status, &body["status"]),
        (StatusCode::OK, &json!("unknown"))
    );
    assert_eq!(harness.row(unknown).await.state(), ("unknown", 3, 2));
    let (status, body) = resolve(&running, unknown, 3, "settle").await;
    assert_eq!((status, &body["status"]), (StatusCode::OK, &json!("sent")));
    running.stop().await;
}

#[tokio::test]
async fn only_a_mail_in_doubt_is_resolved() {
    let harness = Harness::create().await;
    let sent = harness.log_new().await;
    harness.try_once().await;
    let held = harness.log_new().await;
    harness
        .execute("update receipts set status = 'held' where status = 'pending'")
        .await;
    let running = start(&harness, &[]).await;
    for action in ["send", "settle"] {
        let (status, _) = resolve(&running, held, 0, action).await;
        assert_eq!(status, StatusCode::CONFLICT);
        for mail in [sent, Uuid::new_v4()] {
            let (status, _) = resolve(&running, mail, 1, action).await;
            assert_eq!(status, StatusCode::NOT_FOUND);
        }
    }
    let (status, _) = resolve(&running, sent, 1, "forget").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    running.stop().await;
    assert_eq!(resolutions(&harness).await.len(), 0);
}
