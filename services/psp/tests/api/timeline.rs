//! The provider's part of an order's timeline, over its operator listener.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::server::{Server, order, paid_with};

fn whats(part: &Value) -> Vec<&str> {
    let steps = part["steps"].as_array().unwrap().iter();
    steps.map(|step| step["what"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn charges_refunds_and_requests_of_one_order_are_shown() {
    let server = Server::start().await;
    let reference = Uuid::new_v4().to_string();
    let declined = paid_with(&reference, "pm_card_declined");
    server.charge("pay:1", &declined).await;
    let charged = server.charge("pay:2", &order(&reference)).await.json();
    let refund = json!({"charge_id": charged["id"], "amount": 5000, "reference": reference});
    let refunded = server.refund("refund:2", &refund).await;
    assert_eq!(refunded.status, 201, "{refunded:?}");
    server
        .charge("other", &order(&Uuid::new_v4().to_string()))
        .await;

    let path = format!("/admin/timeline/{reference}");
    let part = server.get(&path).await;
    assert_eq!((&part["charges"], &part["refunds"]), (&json!(1), &json!(1)));
    let expected = [
        "response 201 to charge stored",
        "charge is captured",
        "response 201 to refund stored",
        "refund is refunded",
    ];
    assert_eq!(whats(&part), expected);
    let steps = part["steps"].as_array().unwrap();
    // A charge and its response are one statement.
    assert!(steps[0]["commit"].is_string());
    assert_eq!(steps[0]["commit"], steps[1]["commit"]);
    assert_eq!(steps[1]["severity"], "money");
    assert_eq!(steps[1]["facts"]["provider key"], "pay:2");

    // A decline leaves no charge: only its key finds it.
    let part = server.get(&format!("{path}?keys=pay:1,pay:2")).await;
    assert_eq!(whats(&part)[0], "response 402 to charge stored");
    assert_eq!(whats(&part).len(), 5);
}

#[tokio::test]
async fn timeline_of_nothing_is_empty_and_bad_requests_are_rejected() {
    let server = Server::start().await;
    let path = format!("/admin/timeline/{}", Uuid::new_v4());
    let part = server.get(&path).await;
    assert_eq!((&part["charges"], &part["steps"]), (&json!(0), &json!([])));
    let keys = vec!["k"; 51].join(",");
    for (path, status) in [
        ("/admin/timeline/o-1".to_owned(), 404),
        (format!("{path}?keys={keys}"), 400),
        (format!("{path}?key=k"), 400),
    ] {
        let response = server.call(Method::GET, &path, None).await;
        assert_eq!(response.status, status, "{path}");
    }
}
