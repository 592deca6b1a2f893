//! Callers that hang up: a charge that began ends, once.

use std::time::Duration;

use serde_json::json;

use crate::server::{Server, eventually, order, paid_with};

/// Far below the delays in these tests, and long enough to be received.
const PATIENCE: Duration = Duration::from_millis(300);

#[tokio::test]
async fn a_charge_whose_caller_hung_up_is_made_once_and_replays() {
    let server = Server::start().await;
    let fault = json!({"point": "during_charge", "action": "delay", "delay_ms": 1000, "times": 1});
    server.add_fault(fault).await;
    let body = order("o-1");
    let hung_up = tokio::time::timeout(PATIENCE, server.charge("k", &body)).await;
    assert!(hung_up.is_err());
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
async fn a_slow_card_is_charged_although_its_caller_gave_up() {
    let server = Server::start_with(&["--psp-slow-ms", "900"]).await;
    let body = paid_with("o-1", "pm_card_slow");
    let hung_up = tokio::time::timeout(PATIENCE, server.charge("k", &body)).await;
    assert!(hung_up.is_err());
    eventually("the charge is made without its caller", async || {
        server.charged().await == 1
    })
    .await;
    eventually("the answer replays", async || {
        server.charge("k", &body).await.replayed
    })
    .await;
    assert_eq!(server.charged().await, 1);
}

#[tokio::test]
async fn a_caller_that_leaves_a_hanging_charge_frees_the_key_uncharged() {
    let server = Server::start().await;
    server
        .add_fault(json!({"point": "during_charge", "action": "hang", "times": 1}))
        .await;
    let body = order("o-1");
    assert!(
        tokio::time::timeout(PATIENCE, server.charge("k", &body))
            .await
            .is_err()
    );
    eventually("the key is released", async || {
        server.charge("k", &body).await.status == 201
    })
    .await;
    assert_eq!(server.charged().await, 1);
}
