//! `GET /orders/{id}` and its ETag.

use reqwest::Method;
use serde_json::json;
use uuid::Uuid;

use crate::answer::Answer;
use crate::service::{GLOBEX, Service, order, order_with, send};

async fn get_if_none_match(service: &Service, id: Uuid, tags: &str) -> Answer {
    let request = service.request(Method::GET, &format!("/orders/{id}"));
    send(request.header("if-none-match", tags)).await
}

#[tokio::test]
async fn an_order_is_shown_with_all_there_is_to_know() {
    let service = Service::start().await;
    let items = json!([
        {"sku": "B", "quantity": 1, "unit_price": 10},
        {"sku": "A", "quantity": 3, "unit_price": 200},
    ]);
    let mut body = order_with("items", items.clone());
    body["reference"] = json!("cart-1");
    let id = service.post("k-1", &body).await.order_id();
    let answer = service.get(&format!("/orders/{id}")).await;
    assert_eq!(answer.expect(200).header("etag"), Some("\"1\""));
    let view = answer.json();
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
async fn a_version_that_the_client_has_is_not_sent_again() {
    let service = Service::start().await;
    let id = service.post("k-1", &order()).await.order_id();
    for tags in ["\"1\"", "W/\"1\"", "\"7\", \"1\"", "*"] {
        let answer = get_if_none_match(&service, id, tags).await;
        assert_eq!(answer.expect(304).header("etag"), Some("\"1\""), "{tags}");
        assert!(answer.body.is_empty());
    }
    for tags in ["\"2\"", "1", "\"11\"", ""] {
        get_if_none_match(&service, id, tags).await.expect(200);
    }
    service
        .meddle("update orders set status = 'paid', version = version + 1")
        .await;
    let answer = get_if_none_match(&service, id, "\"1\"").await;
    assert_eq!(answer.expect(200).header("etag"), Some("\"2\""));
    assert_eq!(answer.json()["status"], "paid");
}

#[tokio::test]
async fn an_order_of_somebody_else_looks_like_no_order() {
    let service = Service::start().await;
    let id = service.post("k-1", &order()).await.order_id();
    let request = service.anonymous(Method::GET, &format!("/orders/{id}"));
    let theirs = send(request.bearer_auth(GLOBEX)).await;
    let theirs = theirs.expect_problem(404, "order_not_found");
    let none = service.get(&format!("/orders/{}", Uuid::new_v4())).await;
    let none = none.expect_problem(404, "order_not_found");
    assert_eq!(theirs["detail"], none["detail"]);
}

#[tokio::test]
async fn an_id_that_is_no_uuid_is_malformed_for_reading_and_writing() {
    let service = Service::start().await;
    for id in ["4711", "%FF", "%00", "..%2f..%2fetc", &"a".repeat(3_000)] {
        let path = format!("/orders/{id}");
        let read = service.get(&path).await;
        read.expect_problem(400, "malformed_order_id");
        let written = send(service.request(Method::PUT, &path).json(&order())).await;
        written.expect_problem(400, "malformed_order_id");
    }
    assert_eq!(service.stored().await.orders, 0);
}
