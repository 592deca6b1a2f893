//! Outcomes by payment method, and mistakes that the provider does not prevent.

use std::time::{Duration, Instant};

use crate::server::{Server, order, paid_with};

#[tokio::test]
async fn good_card_is_charged_once_and_the_response_describes_it() {
    let server = Server::start().await;
    let response = server.charge("k-1", &order("o-1")).await;
    assert_eq!(response.status, 201);
    assert!(!response.replayed);
    let charge = response.json();
    assert_eq!(charge["status"], "captured");
    assert_eq!(charge["reference"], "o-1");
    assert_eq!(charge["amount"], 5000);
    assert_eq!(charge["currency"], "USD");
    assert_eq!(charge["idempotency_key"], "k-1");
    assert!(charge["id"].is_string() && charge["created_at"].is_string());
    assert_eq!(server.charged().await, 1);
}

#[tokio::test]
async fn bad_cards_and_unknown_methods_are_declined_with_402() {
    let server = Server::start().await;
    for (method, code) in [
        ("pm_card_declined", "card_declined"),
        ("pm_card_insufficient_funds", "insufficient_funds"),
        ("pm_card_expired", "expired_card"),
        ("pm_unknown", "invalid_payment_method"),
    ] {
        let response = server.charge(method, &paid_with("o-1", method)).await;
        assert_eq!(response.status, 402, "{method}");
        assert_eq!(response.code(), code);
    }
    assert_eq!(server.charged().await, 0);
    assert_eq!(server.stored().await, 4);
}

#[tokio::test]
async fn slow_card_is_charged_late() {
    let slow = Duration::from_millis(300);
    let server = Server::start_with(&["--psp-slow-ms", "300"]).await;
    let started = Instant::now();
    let charged = server
        .charge("k", &paid_with("o-1", "pm_card_slow"))
        .await
        .status;
    assert!(started.elapsed() >= slow);
    assert_eq!(charged, 201);
    assert_eq!(server.charged().await, 1);
}

#[tokio::test]
async fn two_keys_for_one_order_charge_twice() {
    let server = Server::start().await;
    for key in ["k-1", "k-2"] {
        assert_eq!(server.charge(key, &order("o-1")).await.status, 201);
    }
    assert_eq!(server.charged().await, 2);
}

#[tokio::test]
async fn charge_keeps_its_currency() {
    let server = Server::start().await;
    let mut body = order("o-1");
    body["currency"] = "JPY".into();
    body["metadata"] = serde_json::json!({"attempt": 1, "note": {"deep": [1, 2]}});
    assert_eq!(server.charge("k", &body).await.json()["currency"], "JPY");
}
