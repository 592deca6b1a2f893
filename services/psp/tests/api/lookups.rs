//! Reading the books over HTTP.

use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::server::{Server, order, paid_with, refund_of};

fn ids(list: &Value) -> Vec<&str> {
    let data = list["data"].as_array().unwrap();
    data.iter()
        .map(|charge| charge["id"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn charge_is_found_by_key_reference_and_id() {
    let server = Server::start().await;
    let charge = server.charge("k-1", &order("o-1")).await.json();
    server.charge("k-2", &order("o-2")).await;
    let id = charge["id"].as_str().unwrap();
    assert_eq!(server.get(&format!("/v1/charges/{id}")).await, charge);
    for query in ["key=k-1", "reference=o-1"] {
        let list = server.get(&format!("/v1/charges?{query}")).await;
        assert_eq!(list["data"], json!([charge]), "{query}");
    }
}

#[tokio::test]
async fn empty_list_means_that_no_such_charge_exists() {
    let server = Server::start().await;
    server
        .charge("k-1", &paid_with("o-1", "pm_card_declined"))
        .await;
    for query in ["key=k-1", "reference=o-1", "key=unknown"] {
        let list = server.get(&format!("/v1/charges?{query}")).await;
        assert!(ids(&list).is_empty(), "{query}");
    }
}

#[tokio::test]
async fn ledger_lists_every_charge_once_page_by_page() {
    let server = Server::start().await;
    for n in 0..5 {
        server
            .charge(&format!("k-{n}"), &order(&format!("o-{n}")))
            .await;
    }
    let (mut seen, mut pages, mut path) = (Vec::new(), 0, "/v1/ledger?limit=2".to_owned());
    loop {
        let page = server.get(&path).await;
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        pages += 1;
        let Some(next) = page["next"].as_str() else {
            break;
        };
        path = format!("/v1/ledger?limit=2&after={next}");
    }
    assert_eq!((pages, seen.len()), (3, 5));
    assert!(seen.is_sorted());
    seen.dedup();
    assert_eq!(seen.len(), 5);
}

#[tokio::test]
async fn ledger_lists_refunds_with_their_charge() {
    let server = Server::start().await;
    let mut charges = Vec::new();
    for n in 0..3 {
        let (key, body) = (format!("k-{n}"), order(&format!("o-{n}")));
        charges.push(server.charge(&key, &body).await.json());
    }
    let mut refunds = Vec::new();
    for (key, n) in [("back-1", 1), ("back-2", 1), ("back-3", 2)] {
        let refund = server.refund(key, &refund_of(&charges[n])).await.json();
        let [id, amount, at] = ["id", "amount", "created_at"].map(|field| &refund[field]);
        refunds.push(
            json!({"id": id, "status": "refunded", "idempotency_key": key,
                            "amount": amount, "created_at": at}),
        );
    }
    charges[0]["refunds"] = json!([]);
    charges[1]["refunds"] = json!(refunds[..2]);
    charges[2]["refunds"] = json!(refunds[2..]);
    assert_eq!(server.get("/v1/ledger").await["data"], json!(charges));
}

#[tokio::test]
async fn refund_is_found_by_key_reference_and_charge() {
    let server = Server::start().await;
    let charge = server.charge("k-1", &order("o-1")).await.json();
    let other = server.charge("k-2", &order("o-2")).await.json();
    let refund = server.refund("back-1", &refund_of(&charge)).await.json();
    server.refund("back-2", &refund_of(&other)).await;
    let id = charge["id"].as_str().unwrap();
    for query in ["key=back-1", "reference=o-1", &format!("charge_id={id}")] {
        let list = server.get(&format!("/v1/refunds?{query}")).await;
        assert_eq!(list["data"], json!([refund]), "{query}");
    }
    let nothing = Uuid::new_v4();
    for query in ["key=k-1", "reference=o", &format!("charge_id={nothing}")] {
        let list = server.get(&format!("/v1/refunds?{query}")).await;
        assert!(ids(&list).is_empty(), "{query}");
    }
}

#[tokio::test]
async fn invalid_lookups_are_400_and_unknown_ids_404() {
    let server = Server::start().await;
    for path in [
        "/v1/charges",
        "/v1/charges?key=a&reference=b",
        "/v1/charges?kee=a",
        "/v1/refunds",
        "/v1/refunds?key=a&reference=b",
        "/v1/refunds?charge_id=nonsense",
    ] {
        assert_eq!(
            server.call(Method::GET, path, None).await.status,
            400,
            "{path}"
        );
    }
    for id in [Uuid::new_v4().to_string(), "nonsense".to_owned()] {
        let response = server
            .call(Method::GET, &format!("/v1/charges/{id}"), None)
            .await;
        assert_eq!(response.status, 404, "{id}");
    }
}

#[tokio::test]
async fn health_readiness_and_metrics_respond() {
    let server = Server::start().await;
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(
            server.call(Method::GET, path, None).await.status,
            200,
            "{path}"
        );
    }
}
