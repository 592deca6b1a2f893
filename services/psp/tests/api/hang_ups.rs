//! Callers that hang up: a charge that began is completed once.

use serde_json::json;

use crate::server::{Server, eventually, order, paid_with};

#[tokio::test]
async fn charge_is_made_once_although_its_caller_hung_up() {
    let server = Server::start().await;
    let fault = json!({"point": "during_charge", "action": "delay", "delay_ms": 2000, "times": 1});
    server.arm(fault).await;
    let body = order("o-1");
    server.abandon("k", &body).await;
    assert_eq!(server.charged().await, 0);
    let busy = server.charge("k", &body).await;
    assert_eq!(busy.status, 409, "the abandoned charge still holds its key");
    eventually("the charge is made without its caller", async || {
        server.charged().await == 1
    })
    .await;
    eventually("its key is released", async || {
        server.charge("k", &body).await.replayed
    })
    .await;
    assert_eq!(server.charged().await, 1);
}

#[tokio::test]
async fn slow_card_is_charged_although_its_caller_hung_up() {
    let server = Server::start_with(&["--psp-slow-ms", "2000"]).await;
    // A delay of zero: it only shows that the request has arrived.
    let arrival = json!({"point": "before_charge", "action": "delay", "delay_ms": 0, "times": 1});
    server.arm(arrival).await;
    let body = paid_with("o-1", "pm_card_slow");
    server.abandon("k", &body).await;
    assert_eq!(server.charged().await, 0);
    eventually("the charge is made without its caller", async || {
        server.charged().await == 1
    })
    .await;
    eventually("the response replays", async || {
        server.charge("k", &body).await.replayed
    })
    .await;
    assert_eq!(server.charged().await, 1);
}

#[tokio::test]
async fn hang_up_during_a_hang_frees_the_key_uncharged() {
    let server = Server::start().await;
    let hang = json!({"point": "during_charge", "action": "hang", "times": 1});
    server.arm(hang).await;
    let body = order("o-1");
    server.abandon("k", &body).await;
    eventually("the key is released", async || {
        server.charge("k", &body).await.status == 201
    })
    .await;
    assert_eq!(server.charged().await, 1);
}
