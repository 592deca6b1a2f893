//! The key window: its length, how clients read it, and requests after the key has expired.

use std::time::Duration;

use idempotency::{SWEEP_ROWS_MAX, sweep};
use service_kit::Reaper;

use crate::eventually;
use crate::harness::{Harness, Stored, order, order_with, orders_stored};

const EXPIRE: &str = "update idempotency_keys set expires_at = now() - interval '1 second'";

#[tokio::test]
async fn policy_is_machine_readable() {
    let harness = Harness::start_with(|config| config.idempotency.key_window_seconds = 3_600).await;
    let policy = harness.get("/idempotency-policy").await;
    assert_eq!(
        policy.expect(200).header("content-type"),
        Some("application/json")
    );
    let policy = policy.json();
    assert_eq!(policy["header"], "Idempotency-Key");
    assert_eq!(policy["window_seconds"], 3_600);
    assert_eq!(
        (&policy["key_length_min"], &policy["key_length_max"]),
        (&1.into(), &255.into())
    );
    assert_eq!(policy["same_key_other_request"], 422);
    assert_eq!(policy["key_in_flight"], 409);
    assert_eq!(policy["key_missing_or_malformed"], 400);
    let routes = serde_json::json!(["POST /orders", "POST /orders/{id}/payments"]);
    assert_eq!(policy["routes"], routes);
}

#[tokio::test]
async fn key_is_kept_for_the_published_window() {
    let harness = Harness::start_with(|config| config.idempotency.key_window_seconds = 3_600).await;
    harness.post("k-1", &order()).await.expect(201);
    let window = "select extract(epoch from expires_at - created_at)::bigint from idempotency_keys";
    let seconds: i64 = sqlx::query_scalar(window)
        .fetch_one(&harness.pool)
        .await
        .unwrap();
    assert_eq!(seconds, 3_600);
}

#[tokio::test]
async fn expired_key_is_free_for_any_request() {
    let harness = Harness::start().await;
    let first = harness.post("k-1", &order()).await;
    harness.run_sql(EXPIRE).await;
    let other = order_with("customer_id", "cust-89");
    let second = harness.post("k-1", &other).await;
    assert!(!second.expect(201).is_replay());
    assert_ne!(first.order_id(), second.order_id());
    // From then on the key is honoured like any other.
    assert!(harness.post("k-1", &other).await.expect(201).is_replay());
    let expected = Stored {
        keys: 1,
        ..orders_stored(2)
    };
    assert_eq!(harness.stored().await, expected);
}

#[tokio::test]
async fn duplicates_with_an_expired_key_create_one_order() {
    let harness = Harness::start().await;
    let order = order();
    harness.post("k-1", &order).await.expect(201);
    harness.run_sql(EXPIRE).await;
    let posts = (0..20).map(|_| harness.post("k-1", &order));
    for response in futures_util::future::join_all(posts).await {
        assert!([201, 409].contains(&response.status), "{}", response.status);
    }
    let expected = Stored {
        keys: 1,
        ..orders_stored(2)
    };
    assert_eq!(harness.stored().await, expected);
}

#[tokio::test]
async fn one_sweep_deletes_all_expired_keys_and_no_other() {
    let harness = Harness::start().await;
    harness.post("k-live", &order()).await.expect(201);
    // More than two batches.
    let expired = 2 * SWEEP_ROWS_MAX + 7;
    sqlx::query(
        "insert into idempotency_keys (principal_id, route, key, fingerprint, response_version,
            response_status, response_headers, response_body, expires_at)
         select 'acme', 'POST /orders', 'k-' || n, '', 1, 201, '{}', '', now()
         from generate_series(1, $1) as n",
    )
    .bind(expired)
    .execute(&harness.pool)
    .await
    .unwrap();
    let reaper = Reaper::new(Duration::ZERO).sweep("keys", sweep(&harness.pool));
    reaper.sweep_all().await;
    // The service's first sweep may have taken some of the rows, and still be at work.
    eventually("the expired keys are gone", async || {
        (harness.stored().await == orders_stored(1)).then_some(())
    })
    .await;
    assert!(harness.post("k-live", &order()).await.is_replay());
}

#[tokio::test]
async fn service_deletes_expired_keys_automatically() {
    let harness =
        Harness::start_with(|config| config.application.retention.reaper_interval_ms = 10).await;
    harness.post("k-1", &order()).await.expect(201);
    harness.run_sql(EXPIRE).await;
    eventually("the key is gone", async || {
        (harness.stored().await.keys == 0).then_some(())
    })
    .await;
    assert_eq!(harness.stored().await.orders, 1);
}
