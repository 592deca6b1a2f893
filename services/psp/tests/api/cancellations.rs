//! Cancelling keys, so that they never charge.

use reqwest::Method;
use serde_json::json;

use crate::server::{Server, eventually, order, paid_with, refund_of};

/// The response of a cancellation that found no charge.
fn cancelled(key: &str) -> serde_json::Value {
    json!({"key": key, "status": "cancelled"})
}

#[tokio::test]
async fn cancelled_unknown_key_never_charges_any_request() {
    let server = Server::start().await;
    let response = server.cancel("k").await;
    assert_eq!(
        (response.status.as_u16(), response.json()),
        (200, cancelled("k"))
    );
    let mut larger = order("o-1");
    larger["amount"] = 5001.into();
    for body in [
        order("o-1"),
        order("o-2"),
        larger,
        paid_with("o-1", "pm_card_declined"),
        paid_with("o-1", "pm_card_slow"),
    ] {
        let declined = server.charge("k", &body).await;
        assert_eq!(declined.status, 402, "{body}");
        assert_eq!(declined.code(), "cancelled");
    }
    assert_eq!(server.charged().await, 0);
    assert_eq!(server.charge("other", &order("o-1")).await.status, 201);
}

#[tokio::test]
async fn cancelling_a_charged_key_returns_its_charge() {
    let server = Server::start().await;
    let charge = server.charge("k", &order("o-1")).await;
    let expected = json!({"key": "k", "status": "captured", "charge": charge.json()});
    for _ in 0..2 {
        let response = server.cancel("k").await;
        assert_eq!(
            (response.status.as_u16(), response.json()),
            (200, expected.clone())
        );
    }
    let again = server.charge("k", &order("o-1")).await;
    assert_eq!((again.replayed, again.text), (true, charge.text));
    assert_eq!(server.charged().await, 1);
}

#[tokio::test]
async fn cancelling_finds_a_charge_whose_key_has_expired() {
    let server = Server::start_with(&["--psp-key-window-seconds", "1"]).await;
    server.charge("k", &order("o-1")).await;
    // A decline under the same key overwrites the row, and the row no longer names the charge.
    eventually("the window closes", async || {
        let body = paid_with("o-1", "pm_card_declined");
        server.charge("k", &body).await.status == 402
    })
    .await;
    assert_eq!(server.cancel("k").await.json()["status"], "captured");
}

#[tokio::test]
async fn cancelled_declined_key_keeps_its_decline() {
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
async fn cancelling_keeps_a_decline_for_a_whole_window() {
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
    assert!(kept, "the decline expired with its first window");
}

#[tokio::test]
async fn repeated_cancellation_gets_the_same_response() {
    let server = Server::start().await;
    let first = server.cancel("k").await;
    for _ in 0..3 {
        let again = server.cancel("k").await;
        assert_eq!((again.status, &again.text), (first.status, &first.text));
    }
    assert_eq!((server.charged().await, server.stored().await), (0, 1));
}

#[tokio::test]
async fn cancelled_key_is_free_after_its_window() {
    let server = Server::start_with(&["--psp-key-window-seconds", "1"]).await;
    server.cancel("k").await;
    eventually("the window closes", async || {
        server.charge("k", &order("o-1")).await.status == 201
    })
    .await;
    assert_eq!(server.cancel("k").await.json()["status"], "captured");
}

#[tokio::test]
async fn stored_5xx_is_cancelled_only_if_nothing_was_charged() {
    for (point, status, code) in [
        ("before_charge", "cancelled", "cancelled"),
        ("during_charge", "cancelled", "cancelled"),
        ("after_charge", "captured", "provider_error"),
    ] {
        let server = Server::start_with(&["--psp-replay-5xx", "stored"]).await;
        let fault = json!({"point": point, "action": "error", "times": 1});
        server.arm(fault).await;
        let body = order("o-1");
        assert_eq!(server.charge("k", &body).await.status, 500);
        let response = server.cancel("k").await.json();
        assert_eq!(response["status"], status, "{point}");
        assert_eq!(server.charge("k", &body).await.code(), code, "{point}");
    }
}

#[tokio::test]
async fn key_in_flight_can_neither_be_cancelled_nor_looked_up() {
    let server = Server::start().await;
    server
        .arm(json!({"point": "during_charge", "action": "hang", "times": 1}))
        .await;
    let body = order("o-1");
    tokio::select! {
        response = server.try_charge("k", &body) => panic!("a hang got a response: {response:?}"),
        () = async {
            eventually("the charge is in flight", async || server.applied().await == [1]).await;
            for response in [
                server.cancel("k").await,
                server.call(Method::GET, "/v1/charges?key=k", None).await,
            ] {
                assert_eq!(response.status, 409);
                assert_eq!(response.code(), "idempotency_key_in_flight");
                assert!(response.retry_after.is_some());
            }
        } => {}
    }
    // The caller has hung up, which ends the hanging charge: now the key can be cancelled.
    eventually("the key is released", async || {
        server.cancel("k").await.status == 200
    })
    .await;
    assert_eq!(server.get("/v1/charges?key=k").await["data"], json!([]));
    assert_eq!(server.charge("k", &body).await.code(), "cancelled");
}

#[tokio::test]
async fn refund_keys_and_cancelled_keys_are_separate() {
    let server = Server::start().await;
    let charge = server.charge("pay", &order("o-1")).await.json();
    let body = refund_of(&charge);
    let refund = server.refund("back", &body).await;
    let reused = server.cancel("back").await;
    assert_eq!(
        (reused.status.as_u16(), reused.code().as_str()),
        (422, "idempotency_key_reused")
    );
    assert_eq!(server.refund("back", &body).await.text, refund.text);
    server.cancel("cancelled").await;
    let reused = server.refund("cancelled", &body).await;
    assert_eq!(reused.code(), "idempotency_key_reused");
    assert_eq!(server.refunded().await, 1);
}

#[tokio::test]
async fn faults_apply_before_or_after_the_key_is_cancelled() {
    for (point, stored) in [("before_cancel", 0), ("after_cancel", 1)] {
        for action in ["drop", "error"] {
            // Even a provider that stores 5xx responses does not store this one: it has no key.
            let server = Server::start_with(&["--psp-replay-5xx", "stored"]).await;
            let fault = json!({"point": point, "action": action, "times": 1, "reference": "o-1"});
            server.arm(fault).await;
            match (action, server.try_cancel("k").await) {
                ("drop", Err(error)) => assert!(error.status().is_none(), "{error:?}"),
                ("error", Ok(response)) => assert_eq!(response.status, 500),
                (_, other) => panic!("{point} {action}: {other:?}"),
            }
            assert_eq!(server.stored().await, stored, "{point} {action}");
            assert_eq!(server.cancel("k").await.json(), cancelled("k"));
        }
    }
}

#[tokio::test]
async fn hanging_cancellation_does_not_block_the_next_one() {
    for point in ["before_cancel", "after_cancel"] {
        let server = Server::start().await;
        let fault = json!({"point": point, "action": "hang", "times": 1});
        server.arm(fault).await;
        tokio::select! {
            response = server.try_cancel("k") => panic!("a hang got a response: {response:?}"),
            () = async {
                eventually("the fault applies", async || server.applied().await == [1]).await;
                assert_eq!(server.cancel("k").await.json(), cancelled("k"), "{point}");
            } => {}
        }
    }
}

#[tokio::test]
async fn provider_without_key_cancellation_answers_404() {
    let server = Server::start_with(&["--psp-key-cancellation", "off"]).await;
    server
        .arm(json!({"point": "before_cancel", "action": "drop"}))
        .await;
    server.charge("charged", &order("o-1")).await;
    for key in ["charged", "free"] {
        let response = server.cancel(key).await;
        assert_eq!(response.status, 404, "{key}");
        assert_eq!(response.code(), "not_supported", "{key}");
        assert!(response.json()["error"]["message"].is_string());
    }
    // Nothing was cancelled: the free key still charges.
    assert_eq!(server.stored().await, 1);
    assert_eq!(server.charge("free", &order("o-2")).await.status, 201);
    assert_eq!(server.applied().await, [0]);
}

#[tokio::test]
async fn invalid_cancellation_is_422_and_stores_nothing() {
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
        let response = server.call(Method::POST, path, Some(body.clone())).await;
        assert_eq!(response.status, 422, "{body}");
    }
    assert_eq!(server.stored().await, 0);
}
