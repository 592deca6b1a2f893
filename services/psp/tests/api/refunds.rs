//! Giving charges back.

use futures_util::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::server::{Server, giving_back, order};

async fn charged(server: &Server) -> Value {
    server.charge("pay", &order("o-1")).await.json()
}

#[tokio::test]
async fn a_charge_is_given_back_once_and_the_answer_describes_the_refund() {
    let server = Server::start().await;
    let charge = charged(&server).await;
    let answer = server.refund("back", &giving_back(&charge)).await;
    assert_eq!((answer.status.as_u16(), answer.replayed), (201, false));
    let refund = answer.json();
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
async fn the_same_key_replays_status_and_body_and_refunds_no_second_time() {
    let server = Server::start().await;
    let body = giving_back(&charged(&server).await);
    let first = server.refund("back", &body).await;
    for _ in 0..3 {
        let again = server.refund("back", &body).await;
        assert!(again.replayed);
        assert_eq!((again.status, &again.text), (first.status, &first.text));
    }
    assert_eq!(server.refunded().await, 1);
}

#[tokio::test]
async fn the_same_key_with_another_request_is_refused_and_changes_nothing() {
    let server = Server::start().await;
    let body = giving_back(&charged(&server).await);
    let first = server.refund("back", &body).await;
    for (field, value) in [
        ("amount", json!(4999)),
        ("amount", json!(5001)),
        ("reference", json!("o-2")),
        ("charge_id", json!(Uuid::new_v4())),
    ] {
        let mut other = body.clone();
        other[field] = value;
        let refused = server.refund("back", &other).await;
        let seen = (refused.status.as_u16(), refused.code());
        assert_eq!(seen, (422, "idempotency_key_reused".to_owned()), "{field}");
    }
    assert_eq!(server.refund("back", &body).await.text, first.text);
    assert_eq!(server.refunded().await, 1);
}

#[tokio::test]
async fn a_key_of_a_charge_is_no_key_for_a_refund_nor_the_other_way_round() {
    let server = Server::start().await;
    let body = giving_back(&charged(&server).await);
    let refund = server.refund("pay", &body).await;
    assert_eq!(refund.code(), "idempotency_key_reused");
    assert_eq!(server.refund("back", &body).await.status, 201);
    let charge = server.charge("back", &order("o-1")).await;
    assert_eq!(charge.code(), "idempotency_key_reused");
    assert_eq!((server.charged().await, server.refunded().await), (1, 1));
}

#[tokio::test]
async fn two_keys_give_one_charge_back_twice_because_the_mistake_must_show() {
    let server = Server::start().await;
    let body = giving_back(&charged(&server).await);
    for key in ["back-1", "back-2"] {
        assert_eq!(server.refund(key, &body).await.status, 201);
    }
    assert_eq!(server.refunded().await, 2);
}

#[tokio::test]
async fn fifty_duplicates_at_once_refund_once() {
    let server = Server::start().await;
    let body = giving_back(&charged(&server).await);
    let answers = join_all((0..50).map(|_| server.refund("back", &body))).await;
    let fresh = answers
        .iter()
        .filter(|answer| answer.status == 201 && !answer.replayed);
    assert_eq!(fresh.count(), 1);
    for answer in &answers {
        assert!(answer.status == 201 || answer.status == 409, "{answer:?}");
    }
    assert_eq!(server.refunded().await, 1);
}

#[tokio::test]
async fn a_part_of_a_charge_can_be_given_back() {
    let server = Server::start().await;
    let mut body = giving_back(&charged(&server).await);
    body["amount"] = 1.into();
    assert_eq!(server.refund("back", &body).await.json()["amount"], 1);
}

#[tokio::test]
async fn an_unknown_charge_and_one_too_small_are_refused_and_leave_the_key_free() {
    let server = Server::start().await;
    let body = giving_back(&charged(&server).await);
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
        let refused = server.refund("back", &body).await;
        assert_eq!(refused.status, status);
        assert_eq!(refused.code(), code);
    }
    assert_eq!((server.refunded().await, server.stored().await), (0, 1));
    assert_eq!(server.refund("back", &body).await.status, 201);
}

#[tokio::test]
async fn what_is_no_refund_is_refused_and_nothing_is_stored() {
    let server = Server::start().await;
    let body = giving_back(&charged(&server).await);
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
        let answer = server.refund("back", &body).await;
        assert_eq!(answer.status, 422, "{field}: {value}");
        assert_eq!(answer.code(), "invalid_request");
    }
    assert_eq!(server.refund("two words", &body).await.status, 400);
    assert_eq!((server.refunded().await, server.stored().await), (0, 1));
}
