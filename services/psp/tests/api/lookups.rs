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
    let mut charge = server.charge("k-1", &order("o-1")).await.json();
    let other = server.charge("k-2", &order("o-2")).await.json();
    server.refund("other", &refund_of(&other)).await;
    let id = charge["id"].as_str().unwrap().to_owned();
    charge["refunds"] = json!([]);
    for refunds in 0..=2 {
        if refunds > 0 {
            let key = format!("back-{refunds}");
            let refund = server.refund(&key, &refund_of(&charge)).await.json();
            let shown = charge["refunds"].as_array_mut().unwrap();
            shown.push(as_listed(&refund));
        }
        assert_eq!(server.get(&format!("/v1/charges/{id}")).await, charge);
        for query in ["key=k-1", "reference=o-1"] {
            let list = server.get(&format!("/v1/charges?{query}")).await;
            assert_eq!(list["data"], json!([charge]), "{query}");
        }
    }
}

/// A refund as it is listed with its charge.
fn as_listed(refund: &Value) -> Value {
    let mut listed = refund.clone();
    for member in ["charge_id", "reference", "currency"] {
        listed.as_object_mut().unwrap().remove(member).unwrap();
    }
    listed
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
    let pages = pages_of_two(&server, "/v1/ledger").await;
    assert_eq!(pages.len(), 3);
    let mut seen = pages.concat();
    assert_eq!(seen.len(), 5);
    assert!(seen.is_sorted());
    seen.dedup();
    assert_eq!(seen.len(), 5);
}

/// The ids on each page of a ledger, up to the page without a `next`.
async fn pages_of_two(server: &Server, ledger: &str) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut path = format!("{ledger}?limit=2");
    loop {
        let page = server.get(&path).await;
        pages.push(ids(&page).into_iter().map(str::to_owned).collect());
        let Some(next) = page["next"].as_str() else {
            return pages;
        };
        path = format!("{ledger}?limit=2&after={next}");
    }
}

#[tokio::test]
async fn refund_ledger_lists_refunds_in_the_order_of_ids() {
    let server = Server::start().await;
    let mut charges = Vec::new();
    for n in 0..2 {
        let (key, body) = (format!("k-{n}"), order(&format!("o-{n}")));
        charges.push(server.charge(&key, &body).await.json());
    }
    // The newest refunds belong to the oldest charge.
    let mut refunds = Vec::new();
    for (n, charge) in [1, 1, 0, 0, 0].into_iter().enumerate() {
        let body = refund_of(&charges[charge]);
        refunds.push(server.refund(&format!("back-{n}"), &body).await.json());
    }
    let all = server.get("/v1/ledger/refunds").await;
    assert_eq!(all["data"], json!(refunds));
    assert_eq!(all["next"], Value::Null);
    let made: Vec<String> = ids(&all).into_iter().map(str::to_owned).collect();
    let pages = pages_of_two(&server, "/v1/ledger/refunds").await;
    assert_eq!(pages, [&made[..2], &made[2..4], &made[4..]]);
    let newest = server
        .get(&format!("/v1/ledger/refunds?after={}", made[3]))
        .await;
    assert_eq!(newest["data"], json!([refunds[4]]));
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
        refunds.push(as_listed(&refund));
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
        "/v1/ledger?after=nonsense",
        "/v1/ledger/refunds?after=nonsense",
        "/v1/ledger/refunds?limit=few",
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
