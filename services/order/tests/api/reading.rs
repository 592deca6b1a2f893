//! `GET /orders/{id}` and its ETag.

use reqwest::Method;
use serde_json::json;
use testkit::ApiResponse;
use uuid::Uuid;

use crate::harness::{GLOBEX, Harness, order, order_with, send};

async fn get_if_none_match(harness: &Harness, id: Uuid, tags: &str) -> ApiResponse {
    let request = harness.request(Method::GET, &format!("/orders/{id}"));
    send(request.header("if-none-match", tags)).await
}

#[tokio::test]
async fn order_is_returned_complete() {
    let harness = Harness::start().await;
    let items = json!([
        {"sku": "B", "quantity": 1, "unit_price": 10},
        {"sku": "A", "quantity": 3, "unit_price": 200},
    ]);
    let mut body = order_with("items", items.clone());
    body["reference"] = json!("cart-1");
    let id = harness.post("k-1", &body).await.order_id();
    let response = harness.get(&format!("/orders/{id}")).await;
    assert_eq!(response.expect(200).header("etag"), Some("\"1\""));
    let view = response.json();
    assert_eq!(view["order_id"], id.to_string());
    assert_eq!(view["status"], "placed");
    assert_eq!(
        (&view["amount"], &view["currency"]),
        (&json!(610), &json!("USD"))
    );
    assert_eq!(view["customer_id"], "cust-88");
    assert_eq!(view["reference"], "cart-1");
    assert_eq!(view["payment_method"], "pm_card_ok");
    assert_eq!((&view["attempt"], &view["version"]), (&json!(1), &json!(1)));
    assert_eq!(view["cancel_requested"], false);
    assert_eq!(view["items"], items);
}

#[tokio::test]
async fn known_version_is_not_sent_again() {
    let harness = Harness::start().await;
    let id = harness.post("k-1", &order()).await.order_id();
    for tags in ["\"1\"", "W/\"1\"", "\"7\", \"1\"", "*"] {
        let response = get_if_none_match(&harness, id, tags).await;
        assert_eq!(response.expect(304).header("etag"), Some("\"1\""), "{tags}");
        assert!(response.body.is_empty());
    }
    for tags in ["\"2\"", "1", "\"11\"", ""] {
        get_if_none_match(&harness, id, tags).await.expect(200);
    }
    harness
        .run_sql("update orders set status = 'paid', version = version + 1")
        .await;
    let response = get_if_none_match(&harness, id, "\"1\"").await;
    assert_eq!(response.expect(200).header("etag"), Some("\"2\""));
    assert_eq!(response.json()["status"], "paid");
}

#[tokio::test]
async fn order_of_another_principal_is_not_found() {
    let harness = Harness::start().await;
    let id = harness.post("k-1", &order()).await.order_id();
    let request = harness.anonymous(Method::GET, &format!("/orders/{id}"));
    let foreign = send(request.bearer_auth(GLOBEX)).await;
    let foreign = foreign.expect_problem(404, "order_not_found");
    let missing = harness.get(&format!("/orders/{}", Uuid::new_v4())).await;
    let missing = missing.expect_problem(404, "order_not_found");
    assert_eq!(foreign["detail"], missing["detail"]);
}

#[tokio::test]
async fn id_that_is_not_a_uuid_is_malformed() {
    let harness = Harness::start().await;
    for id in ["4711", "%FF", "%00", "..%2f..%2fetc", &"a".repeat(3_000)] {
        let path = format!("/orders/{id}");
        let read = harness.get(&path).await;
        read.expect_problem(400, "malformed_order_id");
        let written = send(harness.request(Method::PUT, &path).json(&order())).await;
        written.expect_problem(400, "malformed_order_id");
    }
    assert_eq!(harness.stored().await.orders, 0);
}
