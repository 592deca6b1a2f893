//! Refunding charges.

use futures_util::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::server::{Server, order, refund_of};

async fn charged(server: &Server) -> Value {
    server.charge("pay", &order("o-1")).await.json()
}

#[tokio::test]
async fn charge_is_refunded_once_and_the_response_describes_it() {
    let server = Server::start().await;
    let charge = charged(&server).await;
    let response = server.refund("back", &refund_of(&charge)).await;
    assert_eq!((response.status.as_u16(), response.replayed), (201, false));
    let refund = response.json();
    assert_eq!(refund["status"], "refunded");
    assert_eq!(refund["charge_id"], charge["id"]);
    assert_eq!(refund["reference"], "o-1");
    assert_eq!(refund["amount"], 5000);
    assert_eq!(refund["currency"], "USD");
    assert_eq!(refund["idempotency_key"], "back");
    assert!(refund["id"].is_string() && refund["created_at"].is_string());
    assert_eq!((server.charged().await, server.refunded().await), (1, 1));
}

#[tokio::test]
async fn same_key_replays_and_refunds_once() {
    let server = Server::start().await;
    let body = refund_of(&charged(&server).await);
    let first = server.refund("back", &body).await;
    for _ in 0..3 {
        let again = server.refund("back", &body).await;
        assert!(again.replayed);
        assert_eq!((again.status, &again.text), (first.status, &first.text));
    }
    assert_eq!(server.refunded().await, 1);
}

#[tokio::test]
async fn same_key_with_another_request_is_422_and_refunds_nothing() {
    let server = Server::start().await;
    let body = refund_of(&charged(&server).await);
    let first = server.refund("back", &body).await;
    for (field, value) in [
        ("amount", json!(4999)),
        ("amount", json!(5001)),
        ("reference", json!("o-2")),
        ("charge_id", json!(Uuid::new_v4())),
    ] {
        let mut other = body.clone();
        other[field] = value;
        let reused = server.refund("back", &other).await;
        let seen = (reused.status.as_u16(), reused.code());
        assert_eq!(seen, (422, "idempotency_key_reused".to_owned()), "{field}");
    }
    assert_eq!(server.refund("back", &body).await.text, first.text);
    assert_eq!(server.refunded().await, 1);
}

#[tokio::test]
async fn charges_and_refunds_cannot_share_a_key() {
    let server = Server::start().await;
    let body = refund_of(&charged(&server).await);
    let refund = server.refund("pay", &body).await;
    assert_eq!(refund.code(), "idempotency_key_reused");
    assert_eq!(server.refund("back", &body).await.status, 201);
    let charge = server.charge("back", &order("o-1")).await;
    assert_eq!(charge.code(), "idempotency_key_reused");
    assert_eq!((server.charged().await, server.refunded().await), (1, 1));
}

#[tokio::test]
async fn two_keys_refund_one_charge_twice() {
    let server = Server::start().await;
    let body = refund_of(&charged(&server).await);
    for key in ["back-1", "back-2"] {
        assert_eq!(server.refund(key, &body).await.status, 201);
    }
    assert_eq!(server.refunded().await, 2);
}

#[tokio::test]
async fn fifty_parallel_duplicates_refund_once() {
    let server = Server::start().await;
    let body = refund_of(&charged(&server).await);
    let responses = join_all((0..50).map(|_| server.refund("back", &body))).await;
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
    assert_eq!(server.refunded().await, 1);
}

#[tokio::test]
async fn part_of_a_charge_can_be_refunded() {
    let server = Server::start().await;
    let mut body = refund_of(&charged(&server).await);
    body["amount"] = 1.into();
    assert_eq!(server.refund("back", &body).await.json()["amount"], 1);
}

#[tokio::test]
async fn manual_refunds_take_any_key_and_any_part() {
    let server = Server::start().await;
    let charge = charged(&server).await;
    let keys = ["by-hand", "ticket:4711/1", "refund:o-1:1"];
    for (key, amount) in keys.into_iter().zip([1, 1999, 3000]) {
        let mut body = refund_of(&charge);
        body["amount"] = amount.into();
        let refund = server.refund(key, &body).await;
        assert_eq!(refund.status, 201, "{key}");
        assert_eq!(refund.json()["status"], "refunded", "{key}");
        // A part is a refund of its own: repeated, it is not made again.
        assert!(server.refund(key, &body).await.replayed, "{key}");
    }
    let found = server.get("/v1/charges?reference=o-1").await;
    let found = &found["data"][0];
    assert_eq!(
        (&found["amount"], &found["status"]),
        (&json!(5000), &json!("captured"))
    );
    let shown = found["refunds"].as_array().unwrap().iter();
    let shown: Vec<_> = shown
        .map(|refund| (refund["idempotency_key"].clone(), refund["amount"].clone()))
        .collect();
    let expected = [1, 1999, 3000].map(|amount| json!(amount));
    let expected: Vec<_> = keys
        .map(|key| json!(key))
        .into_iter()
        .zip(expected)
        .collect();
    assert_eq!(shown, expected);
}

#[tokio::test]
async fn failed_checks_against_the_charge_leave_the_key_free() {
    let server = Server::start().await;
    let body = refund_of(&charged(&server).await);
    let with = |field: &str, value: Value| {
        let mut body = body.clone();
        body[field] = value;
        body
    };
    let unknown = with("charge_id", json!(Uuid::new_v4()));
    let too_much = with("amount", json!(5001));
    for (body, status, code) in [
        (unknown, 404, "no_such_charge"),
        (too_much, 422, "refund_too_large"),
    ] {
        let failed = server.refund("back", &body).await;
        assert_eq!(failed.status, status);
        assert_eq!(failed.code(), code);
    }
    assert_eq!((server.refunded().await, server.stored().await), (0, 1));
    assert_eq!(server.refund("back", &body).await.status, 201);
}

#[tokio::test]
async fn invalid_refund_is_422_and_stores_nothing() {
    let server = Server::start().await;
    let body = refund_of(&charged(&server).await);
    for (field, value) in [
        ("amount", json!(0)),
        ("amount", json!(-1)),
        ("amount", json!("5000")),
        ("charge_id", json!("nonsense")),
        ("reference", json!("")),
        ("surprise", json!(1)),
    ] {
        let mut body = body.clone();
        body[field] = value.clone();
        let response = server.refund("back", &body).await;
        assert_eq!(response.status, 422, "{field}: {value}");
        assert_eq!(response.code(), "invalid_request");
    }
    assert_eq!(server.refund("two words", &body).await.status, 400);
    assert_eq!((server.refunded().await, server.stored().await), (0, 1));
}
