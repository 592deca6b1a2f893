//! `GET /orders` lists every order exactly once, with any page size and with equal times.

use order::domain::Status;
use serde_json::Value;
use sqlx::ConnectOptions as _;
use testkit::postgres::pages::PageCount;
use uuid::Uuid;

use crate::harness::{GLOBEX, Harness, order};
use crate::topic::{EventKind, Topic};

/// Follows `next` to the last page; returns the ids in the order of the pages.
async fn list_all(harness: &Harness, query: &str) -> Vec<String> {
    let mut ids = Vec::new();
    let mut after = String::new();
    loop {
        let page = harness.get(&format!("/orders?{query}{after}")).await;
        let page = page.expect(200).json();
        let orders = page["orders"].as_array().unwrap();
        assert!(
            !orders.is_empty() || ids.is_empty(),
            "an empty page at the end"
        );
        ids.extend(orders.iter().map(id_of));
        assert!(ids.len() <= 100, "the pages repeat");
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return ids,
        }
    }
}

fn id_of(order: &Value) -> String {
    order["order_id"].as_str().unwrap().to_owned()
}

async fn place(harness: &Harness, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for number in 0..count {
        let placed = harness.post(&format!("k-{number}"), &order()).await;
        ids.push(placed.order_id().to_string());
    }
    ids
}

#[tokio::test]
async fn pages_of_any_size_list_each_order_once_newest_first() {
    let harness = Harness::start().await;
    let mut ids = place(&harness, 7).await;
    harness.post_as(GLOBEX, "k-0", &order()).await.expect(201);
    ids.reverse();
    for limit in [1, 2, 3, 6, 7, 8, 200] {
        assert_eq!(
            list_all(&harness, &format!("limit={limit}")).await,
            ids,
            "{limit}"
        );
    }
    assert_eq!(list_all(&harness, "").await, ids);
}

#[tokio::test]
async fn orders_with_equal_times_are_listed_once_each() {
    let harness = Harness::start().await;
    let mut ids = Vec::new();
    for _ in 0..9 {
        // Random ids, not ordered by time.
        let id = Uuid::new_v4();
        harness.put(id, &order()).await.expect(201);
        ids.push(id.to_string());
    }
    harness
        .run_sql("update orders set created_at = '2026-01-02T03:04:05.678901Z'")
        .await;
    ids.sort_unstable_by(|a, b| b.cmp(a));
    for limit in [1, 2, 4, 9] {
        assert_eq!(
            list_all(&harness, &format!("limit={limit}")).await,
            ids,
            "{limit}"
        );
    }
}

#[tokio::test]
async fn new_order_does_not_shift_the_next_page() {
    let harness = Harness::start().await;
    let ids = place(&harness, 4).await;
    let first = harness.get("/orders?limit=2").await.json();
    harness.post("late", &order()).await.expect(201);
    let next = first["next"].as_str().unwrap();
    let second = harness.get(&format!("/orders?limit=2&after={next}")).await;
    let second: Vec<_> = second.json()["orders"]
        .as_array()
        .unwrap()
        .iter()
        .map(id_of)
        .collect();
    assert_eq!(second, [ids[1].clone(), ids[0].clone()]);
}

#[tokio::test]
async fn status_filter_works_with_paging() {
    let harness = Harness::start().await;
    let ids = place(&harness, 6).await;
    sqlx::query("update orders set status = 'paid' where id::text = any($1)")
        .bind(&ids[1..4])
        .execute(&harness.pool)
        .await
        .unwrap();
    let paid: Vec<_> = ids[1..4].iter().rev().cloned().collect();
    for limit in [1, 2, 3] {
        let query = format!("status=paid&limit={limit}");
        assert_eq!(list_all(&harness, &query).await, paid);
    }
    assert!(list_all(&harness, "status=shipped").await.is_empty());
}

/// Adds this many orders of the caller with one statement, newer than all others.
async fn fill(harness: &Harness, count: i64, status: &str) {
    sqlx::query(
        "insert into orders (id, principal_id, customer_id, status, amount, currency, payment_method,
                             content_hash, correlation_id, created_at)
         select gen_random_uuid(), 'acme', 'c', $2, 1, 'USD', 'pm', '', 'corr',
                clock_timestamp() + make_interval(secs => n)
         from generate_series(1, $1) as n",
    )
    .bind(count)
    .bind(status)
    .execute(&harness.pool)
    .await
    .unwrap();
}

/// The pages that statements on `orders` read for one request.
async fn pages_for(harness: &Harness, query: &str) -> (Value, i64) {
    let url = harness.pool.connect_options().to_url_lossy();
    let mut pages = PageCount::begin(url.as_str()).await.unwrap();
    let listing = harness.get(&format!("/orders?{query}")).await.json();
    let read = pages.pages_of("from orders").await.unwrap();
    (listing, read)
}

#[tokio::test]
async fn rare_status_is_found_without_reading_all_orders() {
    let harness = Harness::start().await;
    for status in ["declined", "cancelled", "refunded"] {
        fill(&harness, 1, status).await;
    }
    fill(&harness, 30_000, "shipped").await;
    for status in ["declined", "cancelled", "refunded"] {
        let (listing, read) = pages_for(&harness, &format!("status={status}")).await;
        assert_eq!(listing["orders"].as_array().unwrap().len(), 1, "{status}");
        assert_eq!(listing["next"], Value::Null, "{status}");
        assert!(read < 20, "{status}: {read} pages");
    }
}

#[tokio::test]
async fn status_without_index_is_found_in_bounded_requests() {
    let harness = Harness::start().await;
    fill(&harness, 1, "placed").await;
    fill(&harness, 5_000, "shipped").await;
    let (first, read) = pages_for(&harness, "status=placed").await;
    assert!(first["orders"].as_array().unwrap().is_empty());
    assert!(read < 5_000, "{read} pages");
    let (mut next, mut found, mut requests) = (first["next"].clone(), 0, 1);
    while let Some(after) = next.as_str() {
        let path = format!("/orders?status=placed&after={after}");
        let page = harness.get(&path).await.json();
        found += page["orders"].as_array().unwrap().len();
        next = page["next"].clone();
        requests += 1;
    }
    assert_eq!((found, requests), (1, 3));
}

/// The first page of the table has room for all versions of one order, so every update can be a HOT update
/// unless it changes an indexed column.
#[tokio::test]
async fn shipping_an_order_needs_no_new_index_entries() {
    let topic = Topic::create().await;
    let harness = Harness::start_with(|config| {
        config.application.kafka.kafka_brokers = topic.brokers.clone();
        config.application.kafka.kafka_topic = topic.name.clone();
        config.application.kafka_group = format!("order-{}", Uuid::new_v4());
    })
    .await;
    let id = harness.post("k-1", &order()).await.order_id();
    topic.publish_event(id, 1, EventKind::Captured).await;
    topic.publish_event(id, 1, EventKind::Shipped).await;
    let updates =
        "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'orders'";
    testkit::eventually("both updates are HOT updates", async || {
        let updates = sqlx::query_as::<_, (i64, i64)>(updates);
        updates.fetch_one(&harness.pool).await.unwrap() == (2, 2)
    })
    .await;
}

#[tokio::test]
async fn ended_status_is_set_for_the_right_statuses() {
    let harness = Harness::start().await;
    for status in Status::ALL {
        fill(&harness, 1, status.as_str()).await;
    }
    let ended: Vec<(String, Option<String>)> =
        sqlx::query_as("select status, ended_status from orders")
            .fetch_all(&harness.pool)
            .await
            .unwrap();
    assert_eq!(ended.len(), Status::ALL.len());
    for (status, ended_status) in ended {
        let is_ended = status.parse::<Status>().unwrap().is_ended_unshipped();
        assert_eq!(ended_status, is_ended.then_some(status));
    }
}

#[tokio::test]
async fn malformed_query_is_rejected() {
    let harness = Harness::start().await;
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
        // Out of range for a timestamp in Rust or in Postgres.
        cursor(&i64::MAX.to_string()),
        cursor(&i64::MIN.to_string()),
        cursor("-3000000000000000000"),
        "offset=3".to_owned(),
        "status=%ff".to_owned(),
        "status=%00".to_owned(),
    ] {
        let response = harness.get(&format!("/orders?{query}")).await;
        assert_eq!(response.status, 400, "{query}");
        response.expect_problem(400, "malformed_query");
    }
}
