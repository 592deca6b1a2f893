//! `GET /orders`: every order exactly once, whatever the page size and however equal the times.

use serde_json::Value;
use uuid::Uuid;

use crate::service::{GLOBEX, Service, order};

/// Follows `next` to the last page; returns the ids as they came.
async fn walk(service: &Service, query: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut after = String::new();
    loop {
        let page = service.get(&format!("/orders?{query}{after}")).await;
        let page = page.expect(200).json();
        let orders = page["orders"].as_array().unwrap();
        assert!(
            !orders.is_empty() || ids.is_empty(),
            "an empty page at the end"
        );
        ids.extend(orders.iter().map(id_of));
        assert!(ids.len() <= 100, "the pages go round in circles");
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return ids,
        }
    }
}

fn id_of(order: &Value) -> String {
    order["order_id"].as_str().unwrap().to_owned()
}

async fn place(service: &Service, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 0..count {
        let placed = service.post(&format!("k-{number}"), &order()).await;
        ids.push(placed.order_id().to_string());
    }
    ids
}

#[tokio::test]
async fn pages_of_any_size_show_every_order_once_and_the_newest_first() {
    let service = Service::start().await;
    let mut ids = place(&service, 7).await;
    service.post_as(GLOBEX, "k-0", &order()).await.expect(201);
    ids.reverse();
    for limit in [1, 2, 3, 6, 7, 8, 200] {
        assert_eq!(
            walk(&service, &format!("limit={limit}")).await,
            ids,
            "{limit}"
        );
    }
    assert_eq!(walk(&service, "").await, ids);
}

#[tokio::test]
async fn orders_of_one_instant_are_shown_once_each() {
    let service = Service::start().await;
    let mut ids = Vec::new();
    for _ in 0..9 {
        // Ids in no order of time.
        let id = Uuid::new_v4();
        service.put(id, &order()).await.expect(201);
        ids.push(id.to_string());
    }
    service
        .meddle("update orders set created_at = '2026-01-02T03:04:05.678901Z'")
        .await;
    ids.sort_unstable_by(|a, b| b.cmp(a));
    for limit in [1, 2, 4, 9] {
        assert_eq!(
            walk(&service, &format!("limit={limit}")).await,
            ids,
            "{limit}"
        );
    }
}

#[tokio::test]
async fn an_order_placed_while_somebody_pages_moves_nothing() {
    let service = Service::start().await;
    let ids = place(&service, 4).await;
    let first = service.get("/orders?limit=2").await.json();
    service.post("late", &order()).await.expect(201);
    let next = first["next"].as_str().unwrap();
    let second = service.get(&format!("/orders?limit=2&after={next}")).await;
    let second: Vec<_> = second.json()["orders"]
        .as_array()
        .unwrap()
        .iter()
        .map(id_of)
        .collect();
    assert_eq!(second, [ids[1].clone(), ids[0].clone()]);
}

#[tokio::test]
async fn a_status_filters_and_pages_all_the_same() {
    let service = Service::start().await;
    let ids = place(&service, 6).await;
    sqlx::query("update orders set status = 'paid' where id::text = any($1)")
        .bind(&ids[1..4])
        .execute(&service.pool)
        .await
        .unwrap();
    let paid: Vec<_> = ids[1..4].iter().rev().cloned().collect();
    for limit in [1, 2, 3] {
        let query = format!("status=paid&limit={limit}");
        assert_eq!(walk(&service, &query).await, paid);
    }
    assert!(walk(&service, "status=shipped").await.is_empty());
}

#[tokio::test]
async fn a_bad_query_is_refused() {
    let service = Service::start().await;
    let id = Uuid::new_v4();
    let cursor = |micros: &str| format!("after={micros}.{id}");
    for query in [
        "limit=0".to_owned(),
        "limit=-1".to_owned(),
        "limit=201".to_owned(),
        "limit=many".to_owned(),
        "limit=99999999999999999999".to_owned(),
        "limit=1&limit=2".to_owned(),
        "status=lost".to_owned(),
        "status=".to_owned(),
        "after=".to_owned(),
        "after=1".to_owned(),
        "after=1.2".to_owned(),
        format!("after={id}"),
        cursor("yesterday"),
        cursor("99999999999999999999"),
        // Out of range for a timestamp, here or in Postgres.
        cursor(&i64::MAX.to_string()),
        cursor(&i64::MIN.to_string()),
        cursor("-3000000000000000000"),
        "offset=3".to_owned(),
        "status=%ff".to_owned(),
        "status=%00".to_owned(),
    ] {
        let answer = service.get(&format!("/orders?{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
        answer.expect_problem(400, "malformed_query");
    }
}
