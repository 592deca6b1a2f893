//! The provider's own idempotency keys.

use futures_util::future::join_all;
use serde_json::json;

use crate::server::{Server, eventually, order, paid_with};

#[tokio::test]
async fn same_key_replays_and_charges_once() {
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
async fn decline_replays() {
    let server = Server::start().await;
    let body = paid_with("o-1", "pm_card_expired");
    let first = server.charge("k", &body).await;
    let again = server.charge("k", &body).await;
    assert!(again.replayed);
    assert_eq!((again.status, &again.text), (first.status, &first.text));
}

#[tokio::test]
async fn same_key_with_another_request_is_422_and_charges_nothing() {
    let server = Server::start().await;
    let first = server.charge("k", &order("o-1")).await;
    let mut larger = order("o-1");
    larger["amount"] = 5001.into();
    let other = server.charge("k", &larger).await;
    assert_eq!(
        (other.status.as_u16(), other.code().as_str()),
        (422, "idempotency_key_reused")
    );
    let again = server.charge("k", &order("o-1")).await;
    assert_eq!(again.text, first.text);
    assert_eq!(server.charged().await, 1);
}

#[tokio::test]
async fn key_in_flight_is_409_and_released_afterwards() {
    let server = Server::start().await;
    let fault = json!({"point": "during_charge", "action": "delay", "delay_ms": 2000, "times": 1});
    server.arm(fault).await;
    let body = order("o-1");
    let (first, second) = tokio::join!(server.charge("k", &body), async {
        eventually("the first is in flight", async || {
            server.applied().await == [1]
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
async fn key_charges_again_after_its_window() {
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
async fn fifty_parallel_duplicates_charge_once() {
    let server = Server::start().await;
    let body = order("o-1");
    let responses = join_all((0..50).map(|_| server.charge("k", &body))).await;
    let fresh = responses
        .iter()
        .filter(|response| response.status == 201 && !response.replayed);
    assert_eq!(fresh.count(), 1);
    for response in &responses {
        assert!(
            response.status == 201 || response.status == 409,
            "{response:?}"
        );
    }
    assert_eq!(server.charged().await, 1);
}

#[tokio::test]
async fn three_hundred_parallel_keys_are_each_charged_once() {
    let server = Server::start().await;
    let charge = async |n: u32| {
        server
            .charge(&format!("k-{n}"), &order(&format!("o-{n}")))
            .await
    };
    let responses = join_all((0..300).map(charge)).await;
    for (n, response) in responses.iter().enumerate() {
        assert_eq!(response.status, 201);
        assert_eq!(response.json()["reference"], format!("o-{n}"));
    }
    assert_eq!(server.charged().await, 300);
}
