//! Invalid requests get an error before any work, and store nothing.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

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
        let request = match path {
            "/admin/faults" => {
                let url = format!("{}{path}", server.operator_url);
                server.operator.request(Method::POST, &url)
            }
            _ => server.http.post(format!("{}{path}", server.url)),
        };
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
async fn definite_errors_have_their_own_code_and_store_nothing() {
    let server = Server::start().await;
    for (field, value, code) in [
        ("amount", json!(1), "amount_too_small"),
        ("amount", json!(9), "amount_too_small"),
        (
            "payment_method",
            json!("pm_card_unknown"),
            "unknown_payment_method",
        ),
    ] {
        let mut body = order("o-1");
        body[field] = value;
        for _ in 0..2 {
            let response = server.charge("k", &body).await;
            assert_eq!(response.status, 422, "{code}");
            assert_eq!(response.code(), code);
            assert!(!response.replayed);
        }
    }
    assert_untouched(&server).await;
    let mut smallest = order("o-1");
    smallest["amount"] = json!(10);
    assert_eq!(server.charge("k", &smallest).await.status, 201);
}

#[tokio::test]
async fn every_error_has_a_code_and_a_message() {
    let server = Server::start().await;
    let huge = "x".repeat(service_kit::http::BODY_BYTES_MAX + 1);
    let post = |path: &str, body: &str| {
        let url = format!("{}{path}", server.url);
        let request = server.http.post(url).header("idempotency-key", "k");
        request.body(body.to_owned())
    };
    let get = |path: &str| server.http.get(format!("{}{path}", server.url));
    let no_charge = json!({"charge_id": Uuid::nil(), "amount": 1, "reference": "o"}).to_string();
    for (request, status, code) in [
        (post("/v1/charges", "{"), 400, "malformed_json"),
        (post("/v1/charges", "{}"), 422, "invalid_request"),
        (post("/v1/charges", &huge), 413, "body_too_large"),
        (post("/v1/refunds", &no_charge), 404, "no_such_charge"),
        (post("/v1/cancellations", "{}"), 422, "invalid_request"),
        (get("/v1/charges"), 400, "invalid_request"),
        (get("/v1/charges?kee=k"), 400, "invalid_request"),
        (get("/v1/refunds?charge_id=1"), 400, "invalid_request"),
        (get("/v1/ledger?limit=few"), 400, "invalid_request"),
        (get("/v1/ledger/refunds?after=1"), 400, "invalid_request"),
        (get("/v1/charges/nonsense"), 404, "not_found"),
    ] {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), status, "{code}");
        let body: Value = response.json().await.unwrap();
        let error = body["error"].as_object().unwrap();
        assert_eq!(error["code"], code, "{body}");
        assert!(error["message"].is_string(), "{body}");
        assert_eq!((body.as_object().unwrap().len(), error.len()), (1, 2));
    }
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
