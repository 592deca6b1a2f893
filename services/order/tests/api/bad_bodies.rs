//! Invalid bodies are rejected with the right status, and nothing is stored.

use reqwest::{Body, Method};
use serde_json::{Value, json};
use testkit::ApiResponse;
use uuid::Uuid;

use crate::harness::{Harness, KEY, Stored, order, order_with, send};

async fn post_text(harness: &Harness, body: impl Into<Body>) -> ApiResponse {
    let request = harness.request(Method::POST, "/orders").header(KEY, "k-1");
    send(
        request
            .header("content-type", "application/json")
            .body(body),
    )
    .await
}

/// [`order`] with one member of its only item set.
fn item_with(member: &str, value: Value) -> Value {
    let mut order = order();
    order["items"][0][member] = value;
    order
}

fn without(member: &str) -> Value {
    let mut order = order();
    order.as_object_mut().unwrap().remove(member);
    order
}

#[tokio::test]
async fn body_that_is_not_json_is_malformed() {
    let harness = Harness::start().await;
    let whole = order().to_string();
    let deep = "[".repeat(60_000);
    let bodies: [&[u8]; 11] = [
        b"",
        b"{",
        b"not json",
        b"{'customer_id': 'c'}",
        b"{\"customer_id\": \"\xff\xfe\"}",
        b"{\"customer_id\": \"\\ud800\"}",
        b"{\"amount\": NaN}",
        b"\x00",
        deep.as_bytes(),
        &whole.as_bytes()[..whole.len() - 1],
        &[whole.as_bytes(), b"{}"].concat(),
    ];
    for body in bodies {
        let response = post_text(&harness, body.to_vec()).await;
        response.expect_problem(400, "malformed_json");
    }
    assert_eq!(harness.stored().await, Stored::default());
}

/// Two readers may take different values of a repeated member.
#[tokio::test]
async fn member_given_twice_is_malformed() {
    let harness = Harness::start().await;
    let whole = order().to_string();
    let twice = |from: &str, to: &str| {
        let body = whole.replacen(from, to, 1);
        assert_ne!(body, whole);
        body
    };
    let bodies = [
        twice(r#""currency""#, r#""currency":"EUR","currency""#),
        twice(r#""currency""#, r#""currency":"USD","currency""#),
        twice(r#""currency""#, r#""\u0063urrency":"EUR","currency""#),
        twice(r#""sku""#, r#""unit_price":1,"sku""#),
    ];
    let declined = harness.order_in("declined").await;
    let before = harness.stored().await;
    for body in bodies {
        let response = post_text(&harness, body.clone()).await;
        response.expect_problem(400, "malformed_json");
        let url = format!("/orders/{}", Uuid::new_v4());
        let put = harness.request(Method::PUT, &url);
        let put = put.header("content-type", "application/json").body(body);
        send(put).await.expect_problem(400, "malformed_json");
    }
    let url = format!("/orders/{declined}/payments");
    let pay = harness.request(Method::POST, &url).header(KEY, "p-1");
    let pay = pay.header("content-type", "application/json");
    let pay = pay.body(r#"{"payment_method":"pm_a","payment_method":"pm_b"}"#);
    send(pay).await.expect_problem(400, "malformed_json");
    assert_eq!(harness.stored().await, before);
}

#[tokio::test]
async fn json_that_is_not_an_order_is_rejected() {
    let harness = Harness::start().await;
    let line = json!({"sku": "S", "quantity": 1, "unit_price": 1});
    let at_the_limit = json!({"sku": "S", "quantity": 1, "unit_price": money::AMOUNT_MAX});
    let mut bodies = vec![
        json!(null),
        json!([]),
        json!("order"),
        json!({}),
        order_with("surprise", 1),
        item_with("surprise", json!(1)),
        order_with("items", json!([])),
        order_with("items", json!({})),
        order_with("items", json!(vec![line; 101])),
        // Each amount is valid, but their sum is not.
        order_with("items", json!([at_the_limit, at_the_limit])),
        order_with("reference", ""),
        order_with("reference", 7),
        order_with("reference", "r".repeat(129)),
    ];
    let members = ["customer_id", "currency", "items", "payment_method"];
    bodies.extend(members.map(without));
    for text in [
        json!(""),
        json!(1),
        json!(null),
        json!("a\u{0}b"),
        json!("a\nb"),
        json!("\u{7f}"),
    ] {
        bodies.extend(members.map(|member| order_with(member, text.clone())));
        bodies.push(item_with("sku", text));
    }
    for currency in ["usd", "Usd", "US", "USDX", "XXQ", "€", " USD", "BGN"] {
        bodies.push(order_with("currency", currency));
    }
    for number in [
        json!(0),
        json!(-1),
        json!(1.5),
        json!(2.0),
        json!("2"),
        json!(true),
        json!(null),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e300),
    ] {
        bodies.push(item_with("quantity", number.clone()));
        bodies.push(item_with("unit_price", number));
    }
    for body in bodies {
        for response in [
            harness.post("k-1", &body).await,
            harness.put(Uuid::new_v4(), &body).await,
        ] {
            assert_eq!(response.status, 422, "{body}");
            response.expect_problem(422, "invalid_order");
        }
    }
    assert_eq!(harness.stored().await, Stored::default());
}

/// The number reaches neither a table nor the response.
#[tokio::test]
async fn card_number_is_rejected_and_not_repeated() {
    let harness = Harness::start().await;
    let declined = harness.order_in("declined").await;
    let before = harness.stored().await;
    for number in [
        json!("4111111111111111"),
        json!("4111 1111 1111 1111"),
        json!("4111-1111-1111-1111"),
        json!("378282246310005"),
        json!(4_111_111_111_111_111_u64),
    ] {
        let body = order_with("payment_method", number.clone());
        let mut unknown_member = order();
        unknown_member["4111111111111111"] = json!(1);
        let pay = harness.request(Method::POST, &format!("/orders/{declined}/payments"));
        let pay = pay
            .header(KEY, "p-1")
            .json(&json!({"payment_method": number}));
        for response in [
            harness.post("k-1", &body).await,
            harness.put(Uuid::new_v4(), &body).await,
            harness.post("k-1", &unknown_member).await,
            send(pay).await,
        ] {
            let problem = response.expect_problem(422, "card_number");
            let detail = problem["detail"].as_str().unwrap();
            assert!(!detail.contains(|c: char| c.is_ascii_digit()), "{detail}");
        }
    }
    assert_eq!(harness.stored().await, before);
    // Other digits are a name like any other.
    let name = order_with("payment_method", "4111111111111112");
    harness.post("k-1", &name).await.expect(201);
}

#[tokio::test]
async fn largest_allowed_order_is_accepted() {
    let harness = Harness::start().await;
    let text = "ü".repeat(128);
    let line = json!({"sku": text, "quantity": 100_000, "unit_price": 1});
    let mut order = order_with("items", json!(vec![line; 100]));
    for member in ["customer_id", "reference"] {
        order[member] = json!(text);
    }
    order["payment_method"] = json!("p".repeat(64));
    let placed = harness.post("k-1", &order).await;
    assert_eq!(placed.expect(201).json()["amount"], 10_000_000);
    assert_eq!(harness.stored().await.items, 100);
}

#[tokio::test]
async fn other_content_type_is_unsupported() {
    let harness = Harness::start().await;
    for content_type in [
        None,
        Some("text/plain"),
        Some("application/jsonx"),
        Some("json"),
        Some(""),
    ] {
        let request = harness.request(Method::POST, "/orders").header(KEY, "k-1");
        let mut request = request.body(order().to_string());
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        send(request)
            .await
            .expect_problem(415, "unsupported_media_type");
    }
    assert_eq!(harness.stored().await, Stored::default());
}

#[tokio::test]
async fn body_above_the_limit_is_too_large() {
    let harness = Harness::start().await;
    let padded = format!(
        "{}{}",
        order(),
        " ".repeat(service_kit::http::BODY_BYTES_MAX)
    );
    // The content length is too large, so the body is rejected before it is read.
    let announced = post_text(&harness, padded).await;
    announced.expect_problem(413, "body_too_large");
    assert!(announced.header("x-correlation-id").is_some());
    assert_eq!(harness.stored().await, Stored::default());
}
