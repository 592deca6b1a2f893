//! Reading the books over HTTP.

use reqwest::Method;
use serde_json::Value;
use uuid::Uuid;

use crate::server::{Server, order, paid_with};

fn ids(list: &Value) -> Vec<&str> {
    let data = list["data"].as_array().unwrap();
    data.iter()
        .map(|charge| charge["id"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_charge_is_found_by_key_by_reference_and_by_id_as_it_was_answered() {
    let server = Server::start().await;
    let charge = server.charge("k-1", &order("o-1")).await.json();
    server.charge("k-2", &order("o-2")).await;
    let id = charge["id"].as_str().unwrap();
    assert_eq!(server.get(&format!("/v1/charges/{id}")).await, charge);
    for query in ["key=k-1", "reference=o-1"] {
        let list = server.get(&format!("/v1/charges?{query}")).await;
        assert_eq!(list["data"], serde_json::json!([charge]), "{query}");
    }
}

#[tokio::test]
async fn an_empty_list_says_that_no_such_charge_exists() {
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
async fn the_ledger_lists_every_charge_once_page_by_page() {
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
async fn lookups_that_name_nothing_or_too_much_are_refused() {
    let server = Server::start().await;
    for path in [
        "/v1/charges",
        "/v1/charges?key=a&reference=b",
        "/v1/charges?kee=a",
    ] {
        assert_eq!(
            server.call(Method::GET, path, None).await.status,
            400,
            "{path}"
        );
    }
    for id in [Uuid::new_v4().to_string(), "nonsense".to_owned()] {
        let answer = server
            .call(Method::GET, &format!("/v1/charges/{id}"), None)
            .await;
        assert_eq!(answer.status, 404, "{id}");
    }
}

#[tokio::test]
async fn health_and_readiness_answer() {
    let server = Server::start().await;
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(
            server.call(Method::GET, path, None).await.status,
            200,
            "{path}"
        );
    }
}
