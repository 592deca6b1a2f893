//! Asking that a key shall never charge.

use reqwest::Method;
use serde_json::json;

use crate::server::{Server, eventually, giving_back, order, paid_with};

/// The answer of a cancellation that found no charge.
fn cancelled(key: &str) -> serde_json::Value {
    json!({"key": key, "status": "cancelled"})
}

#[tokio::test]
async fn an_unknown_key_is_burnt_and_no_charge_whatever_its_body_is_made_under_it() {
    let server = Server::start().await;
    let answer = server.cancel("k").await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()),
        (200, cancelled("k"))
    );
    let mut dearer = order("o-1");
    dearer["amount"] = 5001.into();
    for body in [
        order("o-1"),
        order("o-2"),
        dearer,
        paid_with("o-1", "pm_card_declined"),
        paid_with("o-1", "pm_card_slow"),
    ] {
        let refused = server.charge("k", &body).await;
        assert_eq!(refused.status, 402, "{body}");
        assert_eq!(refused.code(), "cancelled");
    }
    assert_eq!(server.charged().await, 0);
    assert_eq!(server.charge("other", &order("o-1")).await.status, 201);
}

#[tokio::test]
async fn a_charged_key_answers_with_its_charge_and_stays_charged() {
    let server = Server::start().await;
    let charge = server.charge("k", &order("o-1")).await;
    let expected = json!({"key": "k", "status": "captured", "charge": charge.json()});
    for _ in 0..2 {
        let answer = server.cancel("k").await;
        assert_eq!(
            (answer.status.as_u16(), answer.json()),
            (200, expected.clone())
        );
    }
    let again = server.charge("k", &order("o-1")).await;
    assert_eq!((again.replayed, again.text), (true, charge.text));
    assert_eq!(server.charged().await, 1);
}

#[tokio::test]
async fn a_charge_is_reported_although_its_key_was_forgotten() {
    let server = Server::start_with(&["--psp-key-window-seconds", "1"]).await;
    server.charge("k", &order("o-1")).await;
    // A decline under the same key takes the row over, and with it all that the row knew.
    eventually("the window closes", async || {
        let body = paid_with("o-1", "pm_card_declined");
        server.charge("k", &body).await.status == 402
    })
    .await;
    assert_eq!(server.cancel("k").await.json()["status"], "captured");
}

#[tokio::test]
async fn a_declined_key_answers_cancelled_and_keeps_its_decline() {
    let server = Server::start().await;
    let body = paid_with("o-1", "pm_card_expired");
    let decline = server.charge("k", &body).await;
    for _ in 0..2 {
        assert_eq!(server.cancel("k").await.json(), cancelled("k"));
        let again = server.charge("k", &body).await;
        assert_eq!((again.replayed, &again.text), (true, &decline.text));
    }
    assert_eq!(server.charge("k", &order("o-1")).await.status, 422);
    assert_eq!(server.charged().await, 0);
}

#[tokio::test]
async fn a_cancelled_decline_is_kept_for_a_window_from_then_on() {
    let server = Server::start_with(&["--psp-key-window-seconds", "60"]).await;
    server
        .charge("k", &paid_with("o-1", "pm_card_expired"))
        .await;
    let sql = "update requests set expires_at = now() + interval '1 second'";
    sqlx::query(sql).execute(&server.books).await.unwrap();
    assert_eq!(server.cancel("k").await.json(), cancelled("k"));
    let sql = "select expires_at > now() + interval '30 seconds' from requests where key = 'k'";
    let kept: bool = sqlx::query_scalar(sql)
        .fetch_one(&server.books)
        .await
        .unwrap();
    assert!(kept, "the promise ended with the decline's own window");
}

#[tokio::test]
async fn a_repeated_cancellation_is_answered_the_same() {
    let server = Server::start().await;
    let first = server.cancel("k").await;
    for _ in 0..3 {
        let again = server.cancel("k").await;
        assert_eq!((again.status, &again.text), (first.status, &first.text));
    }
    assert_eq!((server.charged().await, server.stored().await), (0, 1));
}

#[tokio::test]
async fn a_burnt_key_past_its_window_is_as_new() {
    let server = Server::start_with(&["--psp-key-window-seconds", "1"]).await;
    server.cancel("k").await;
    eventually("the window closes", async || {
        server.charge("k", &order("o-1")).await.status == 201
    })
    .await;
    assert_eq!(server.cancel("k").await.json()["status"], "captured");
}

#[tokio::test]
async fn a_stored_5xx_is_burnt_if_nothing_was_charged_and_reported_if_something_was() {
    for (point, status, code) in [
        ("before_charge", "cancelled", "cancelled"),
        ("during_charge", "cancelled", "cancelled"),
        ("after_charge", "captured", "provider_error"),
    ] {
        let server = Server::start_with(&["--psp-replay-5xx", "stored"]).await;
        let fault = json!({"point": point, "action": "error", "times": 1});
        server.add_fault(fault).await;
        let body = order("o-1");
        assert_eq!(server.charge("k", &body).await.status, 500);
        let answer = server.cancel("k").await.json();
        assert_eq!(answer["status"], status, "{point}");
        assert_eq!(server.charge("k", &body).await.code(), code, "{point}");
    }
}

#[tokio::test]
async fn a_key_in_flight_can_neither_be_cancelled_nor_looked_up() {
    let server = Server::start().await;
    server
        .add_fault(json!({"point": "during_charge", "action": "hang", "times": 1}))
        .await;
    let body = order("o-1");
    tokio::select! {
        answer = server.try_charge("k", &body) => panic!("a hang was answered: {answer:?}"),
        () = async {
            eventually("the charge is in flight", async || server.fired().await == [1]).await;
            for answer in [
                server.cancel("k").await,
                server.call(Method::GET, "/v1/charges?key=k", None).await,
            ] {
                assert_eq!(answer.status, 409);
                assert_eq!(answer.code(), "idempotency_key_in_flight");
                assert!(answer.retry_after.is_some());
            }
        } => {}
    }
    // The caller has gone and the charge with it: now the key can be burnt.
    eventually("the key is released", async || {
        server.cancel("k").await.status == 200
    })
    .await;
    assert_eq!(server.get("/v1/charges?key=k").await["data"], json!([]));
    assert_eq!(server.charge("k", &body).await.code(), "cancelled");
}

#[tokio::test]
async fn a_key_of_a_refund_is_not_burnt_and_a_burnt_key_refunds_nothing() {
    let server = Server::start().await;
    let charge = server.charge("pay", &order("o-1")).await.json();
    let body = giving_back(&charge);
    let refund = server.refund("back", &body).await;
    let refused = server.cancel("back").await;
    assert_eq!(
        (refused.status.as_u16(), refused.code().as_str()),
        (422, "idempotency_key_reused")
    );
    assert_eq!(server.refund("back", &body).await.text, refund.text);
    server.cancel("burnt").await;
    let refused = server.refund("burnt", &body).await;
    assert_eq!(refused.code(), "idempotency_key_reused");
    assert_eq!(server.refunded().await, 1);
}

#[tokio::test]
async fn faults_strike_before_the_key_is_burnt_or_after() {
    for (point, burnt) in [("before_cancel", 0), ("after_cancel", 1)] {
        for action in ["drop", "error"] {
            // Where 5xx are kept, this one is not: no key belongs to it.
            let server = Server::start_with(&["--psp-replay-5xx", "stored"]).await;
            let fault = json!({"point": point, "action": action, "times": 1, "reference": "o-1"});
            server.add_fault(fault).await;
            match (action, server.try_cancel("k").await) {
                ("drop", Err(error)) => assert!(error.status().is_none(), "{error:?}"),
                ("error", Ok(answer)) => assert_eq!(answer.status, 500),
                (_, other) => panic!("{point} {action}: {other:?}"),
            }
            assert_eq!(server.stored().await, burnt, "{point} {action}");
            assert_eq!(server.cancel("k").await.json(), cancelled("k"));
        }
    }
}

#[tokio::test]
async fn a_cancellation_that_hangs_holds_no_key_and_the_next_one_is_answered() {
    for point in ["before_cancel", "after_cancel"] {
        let server = Server::start().await;
        let fault = json!({"point": point, "action": "hang", "times": 1});
        server.add_fault(fault).await;
        tokio::select! {
            answer = server.try_cancel("k") => panic!("a hang was answered: {answer:?}"),
            () = async {
                eventually("the fault strikes", async || server.fired().await == [1]).await;
                assert_eq!(server.cancel("k").await.json(), cancelled("k"), "{point}");
            } => {}
        }
    }
}

#[tokio::test]
async fn what_is_no_cancellation_is_refused_and_nothing_is_stored() {
    let server = Server::start().await;
    for body in [
        json!({"key": "k"}),
        json!({"reference": "o-1"}),
        json!({"key": "", "reference": "o-1"}),
        json!({"key": "two words", "reference": "o-1"}),
        json!({"key": "k".repeat(256), "reference": "o-1"}),
        json!({"key": "k", "reference": ""}),
        json!({"key": "k", "reference": "o-1", "surprise": 1}),
    ] {
        let path = "/v1/cancellations";
        let answer = server.call(Method::POST, path, Some(body.clone())).await;
        assert_eq!(answer.status, 422, "{body}");
    }
    assert_eq!(server.stored().await, 0);
}
