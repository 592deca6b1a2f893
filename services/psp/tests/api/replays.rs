//! The provider's own idempotency keys.

use futures_util::future::join_all;
use serde_json::json;

use crate::server::{Server, eventually, order, paid_with};

#[tokio::test]
async fn the_same_key_replays_status_and_body_and_charges_no_second_time() {
    let server = Server::start().await;
    let first = server.charge("k", &order("o-1")).await;
    for _ in 0..3 {
        let again = server.charge("k", &order("o-1")).await;
        assert!(again.replayed);
        assert_eq!((again.status, &again.text), (first.status, &first.text));
    }
    assert_eq!(server.charged().await, 1);
}

#[tokio::test]
async fn a_decline_is_an_answer_too_and_replays() {
    let server = Server::start().await;
    let body = paid_with("o-1", "pm_card_expired");
    let first = server.charge("k", &body).await;
    let again = server.charge("k", &body).await;
    assert!(again.replayed);
    assert_eq!((again.status, &again.text), (first.status, &first.text));
}

#[tokio::test]
async fn the_same_key_with_another_request_is_refused_and_changes_nothing() {
    let server = Server::start().await;
    let first = server.charge("k", &order("o-1")).await;
    let mut dearer = order("o-1");
    dearer["amount"] = 5001.into();
    let other = server.charge("k", &dearer).await;
    assert_eq!(
        (other.status.as_u16(), other.code().as_str()),
        (422, "idempotency_key_reused")
    );
    let again = server.charge("k", &order("o-1")).await;
    assert_eq!(again.text, first.text);
    assert_eq!(server.charged().await, 1);
}

#[tokio::test]
async fn a_key_in_flight_is_refused_with_409_and_released_afterwards() {
    let server = Server::start().await;
    let fault = json!({"point": "during_charge", "action": "delay", "delay_ms": 2000, "times": 1});
    server.add_fault(fault).await;
    let body = order("o-1");
    let (first, second) = tokio::join!(server.charge("k", &body), async {
        eventually("the first is in flight", async || {
            server.fired().await == [1]
        })
        .await;
        assert_eq!(server.charged().await, 0);
        server.charge("k", &body).await
    });
    assert_eq!(first.status, 201);
    assert_eq!(second.status, 409);
    assert_eq!(second.code(), "idempotency_key_in_flight");
    assert!(second.retry_after.is_some());
    assert!(server.charge("k", &body).await.replayed);
    assert_eq!(server.charged().await, 1);
}

#[tokio::test]
async fn a_key_past_its_window_is_as_new_and_charges_again() {
    let server = Server::start_with(&["--psp-key-window-seconds", "3"]).await;
    let first = server.charge("k", &order("o-1")).await.json();
    assert!(server.charge("k", &order("o-1")).await.replayed);
    eventually("the window closes", async || {
        !server.charge("k", &order("o-1")).await.replayed
    })
    .await;
    assert_eq!(server.charged().await, 2);
    let charges = server.get("/v1/charges?key=k").await;
    assert_eq!(charges["data"].as_array().unwrap().len(), 2);
    assert_eq!(charges["data"][0]["id"], first["id"]);
}

#[tokio::test]
async fn fifty_duplicates_at_once_charge_once() {
    let server = Server::start().await;
    let body = order("o-1");
    let answers = join_all((0..50).map(|_| server.charge("k", &body))).await;
    let fresh = answers
        .iter()
        .filter(|answer| answer.status == 201 && !answer.replayed);
    assert_eq!(fresh.count(), 1);
    for answer in &answers {
        assert!(answer.status == 201 || answer.status == 409, "{answer:?}");
    }
    assert_eq!(server.charged().await, 1);
}

#[tokio::test]
async fn three_hundred_different_keys_at_once_are_each_charged_once() {
    let server = Server::start().await;
    let charge = async |n: u32| {
        server
            .charge(&format!("k-{n}"), &order(&format!("o-{n}")))
            .await
    };
    let answers = join_all((0..300).map(charge)).await;
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(answer.status, 201);
        assert_eq!(answer.json()["reference"], format!("o-{n}"));
    }
    assert_eq!(server.charged().await, 300);
}
