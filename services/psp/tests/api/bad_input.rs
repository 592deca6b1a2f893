//! Invalid requests get an error before any work, and store nothing.

use serde_json::{Value, json};

use crate::server::{Server, order};

async fn status_of(server: &Server, key: Option<&str>, body: impl Into<reqwest::Body>) -> u16 {
    let mut request = server
        .http
        .post(format!("{}/v1/charges", server.url))
        .body(body);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    request.send().await.unwrap().status().as_u16()
}

async fn assert_untouched(server: &Server) {
    assert_eq!((server.charged().await, server.stored().await), (0, 0));
}

#[tokio::test]
async fn missing_or_malformed_key_is_400_and_stores_nothing() {
    let server = Server::start().await;
    let body = order("o-1").to_string();
    let long = "k".repeat(256);
    for key in [None, Some(""), Some("two words"), Some(long.as_str())] {
        assert_eq!(status_of(&server, key, body.clone()).await, 400, "{key:?}");
    }
    assert_untouched(&server).await;
}

#[tokio::test]
async fn body_that_is_not_json_is_400_and_stores_nothing() {
    let server = Server::start().await;
    for body in ["", "{", "amount=5000", "{\"reference\":\"o-1\",}"] {
        assert_eq!(status_of(&server, Some("k"), body).await, 400, "{body:?}");
    }
    assert_untouched(&server).await;
}

#[tokio::test]
async fn member_given_twice_is_400_and_stores_nothing() {
    let server = Server::start().await;
    let whole = order("o-1").to_string();
    for twice in [
        r#"{"amount":1,"#,
        r#"{"metadata":{"a":1,"b":{"c":1,"c":1}},"#,
    ] {
        let body = whole.replacen('{', twice, 1);
        assert_eq!(status_of(&server, Some("k"), body).await, 400, "{twice}");
    }
    let posts = [
        ("/v1/refunds", r#"{"amount":1,"amount":2}"#),
        (
            "/v1/cancellations",
            r#"{"key":"k","key":"l","reference":"o-1"}"#,
        ),
        (
            "/admin/faults",
            r#"{"point":"before_charge","action":"drop","action":"hang"}"#,
        ),
    ];
    for (path, body) in posts {
        let request = server.http.post(format!("{}{path}", server.url));
        let request = request.header("idempotency-key", "k").body(body);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 400, "{path}");
    }
    assert_eq!(server.applied().await, [0; 0]);
    assert_untouched(&server).await;
}

#[tokio::test]
async fn json_that_is_not_a_charge_is_422_and_stores_nothing() {
    let server = Server::start().await;
    for (field, value) in [
        ("amount", json!(0)),
        ("amount", json!(-1)),
        ("amount", json!(50.5)),
        ("amount", json!("5000")),
        ("amount", json!(1_000_000_000_001_i64)),
        ("amount", json!(u64::MAX)),
        ("amount", Value::Null),
        ("currency", json!("usd")),
        ("currency", json!("ZZZ")),
        ("reference", json!("")),
        ("reference", json!("o\u{0}1")),
        ("reference", json!("o".repeat(256))),
        ("payment_method", json!("")),
        ("payment_method", json!("p".repeat(65))),
        ("metadata", json!("text")),
        ("surprise", json!(1)),
    ] {
        let mut body = order("o-1");
        body[field] = value.clone();
        let response = server.charge("k", &body).await;
        assert_eq!(response.status, 422, "{field}: {value}");
        assert_eq!(response.code(), "invalid_request");
    }
    assert_eq!(status_of(&server, Some("k"), "[]").await, 422);
    assert_untouched(&server).await;
}

#[tokio::test]
async fn card_number_is_422_and_not_repeated() {
    let server = Server::start().await;
    for number in [
        json!("4111111111111111"),
        json!("4111-1111-1111-1111"),
        json!(4_111_111_111_111_111_u64),
    ] {
        let mut body = order("o-1");
        body["payment_method"] = number;
        let response = server.charge("k", &body).await;
        assert_eq!(
            (response.status.as_u16(), &*response.code()),
            (422, "invalid_request")
        );
        let text = response.json().to_string();
        assert!(
            text.contains("card number") && !text.contains("1111"),
            "{text}"
        );
    }
    assert_untouched(&server).await;
}

#[tokio::test]
async fn huge_body_is_413_and_stores_nothing() {
    let server = Server::start().await;
    let mut body = order("o-1");
    body["metadata"] = json!({"note": "x".repeat(service_kit::http::BODY_BYTES_MAX)});
    assert_eq!(server.charge("k", &body).await.status, 413);
    assert_untouched(&server).await;
}

#[tokio::test]
async fn invalid_request_leaves_its_key_free() {
    let server = Server::start().await;
    let mut body = order("o-1");
    body["amount"] = json!(0);
    assert_eq!(server.charge("k", &body).await.status, 422);
    assert_eq!(server.charge("k", &order("o-1")).await.status, 201);
}
