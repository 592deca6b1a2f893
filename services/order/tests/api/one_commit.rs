//! Key, order, items, event and response are stored in one commit or not at all.

use crate::harness::{Harness, Stored, order, orders_stored};

/// Makes every insert into the table fail.
macro_rules! fail_inserts {
    ($table:literal) => {
        concat!(
            "create function reject() returns trigger language plpgsql as ",
            "$$ begin raise 'the disk is on fire'; end $$; ",
            "create trigger reject before insert on ",
            $table,
            " for each row execute function reject()"
        )
    };
}

const REPAIR: &str = "drop function reject() cascade";

#[tokio::test]
async fn failed_insert_stores_nothing_and_frees_the_key() {
    for fail in [
        fail_inserts!("idempotency_keys"),
        fail_inserts!("orders"),
        fail_inserts!("order_items"),
        fail_inserts!("outbox"),
    ] {
        let harness = Harness::start().await;
        harness.run_sql(fail).await;
        let failed = harness.post("k-1", &order()).await;
        failed.expect_problem(503, "temporarily_unavailable");
        assert_eq!(failed.header("retry-after"), Some("1"));
        let text = String::from_utf8_lossy(&failed.body);
        assert!(!text.contains("fire"), "a cause leaked: {text}");
        assert_eq!(harness.stored().await, Stored::default(), "{fail}");

        harness.run_sql(REPAIR).await;
        let placed = harness.post("k-1", &order()).await;
        assert!(!placed.expect(201).is_replay(), "a failure was stored");
        assert_eq!(harness.stored().await, orders_stored(1));
    }
}

#[tokio::test]
async fn failed_insert_with_a_reference_stores_nothing() {
    let harness = Harness::start().await;
    harness.run_sql(fail_inserts!("outbox")).await;
    let cart = crate::harness::order_with("reference", "cart-1");
    let failed = harness.post("k-1", &cart).await;
    failed.expect_problem(503, "temporarily_unavailable");
    assert_eq!(harness.stored().await, Stored::default());
    harness.run_sql(REPAIR).await;
    harness.post("k-1", &cart).await.expect(201);
    assert_eq!(harness.stored().await, orders_stored(1));
}

#[tokio::test]
async fn event_matches_the_order() {
    let harness = Harness::start().await;
    let placed = harness.post("k-1", &order()).await;
    let id = placed.order_id();
    let (kind, subject, correlation, payload): (String, uuid::Uuid, String, String) =
        sqlx::query_as("select event_type, subject, correlation_id, payload from outbox")
            .fetch_one(&harness.pool)
            .await
            .unwrap();
    assert_eq!((kind.as_str(), subject), ("order.placed", id));
    assert_eq!(
        Some(correlation.as_str()),
        placed.header("x-correlation-id")
    );
    let payload: serde_json::Value = serde_json::from_str(&payload).unwrap();
    let expected = serde_json::json!({
        "v": 2, "order_id": id, "attempt": 1, "customer_id": "cust-88", "amount": 5000,
        "principal_id": "acme", "currency": "USD", "payment_method": "pm_card_ok",
        "lines": [{"sku": "SKU-99", "quantity": 2}],
    });
    assert_eq!(payload, expected);
}
