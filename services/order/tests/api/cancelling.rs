//! `DELETE /orders/{id}`: a cancellation request is recorded once, and not after shipment.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;
use sqlx::Connection as _;
use testkit::ApiResponse;
use testkit::fault_proxy::{FaultProxy, Loss};
use uuid::Uuid;

use crate::harness::{GLOBEX, Harness, order, send};

/// Kills every backend that writes an event, before it can commit.
const KILL_WRITERS: &str = "
    create function die() returns trigger language plpgsql as
    $$ begin perform pg_terminate_backend(pg_backend_pid()); return new; end $$;
    create trigger die before insert on outbox for each row execute function die()";
const HEAL: &str = "drop function die() cascade";

async fn delete_if_match(harness: &Harness, id: Uuid, tags: &str) -> ApiResponse {
    let request = harness.request(Method::DELETE, &format!("/orders/{id}"));
    send(request.header("if-match", tags)).await
}

/// Status, version, and whether cancellation was requested, as `GET` shows them.
async fn seen(harness: &Harness, id: Uuid) -> (String, i64, bool) {
    let view = harness.get(&format!("/orders/{id}")).await.json();
    (
        view["status"].as_str().unwrap().to_owned(),
        view["version"].as_i64().unwrap(),
        view["cancel_requested"].as_bool().unwrap(),
    )
}

fn state(status: &str, version: i64, cancel_requested: bool) -> (String, i64, bool) {
    (status.to_owned(), version, cancel_requested)
}

/// The number of `order.cancel_requested` events.
async fn published(harness: &Harness, id: Uuid) -> i64 {
    harness.events(id, "order.cancel_requested").await
}

#[tokio::test]
async fn cancellation_request_is_stored_and_published_once() {
    let harness = Harness::start().await;
    for (status, version) in [("placed", 1), ("paid", 2)] {
        let id = harness.order_in(status).await;
        assert_eq!(seen(&harness, id).await, state(status, version, false));
        for _ in 0..3 {
            let response = harness.delete(id).await;
            assert!(response.expect(204).body.is_empty());
            // Only a request: the status does not change until fulfilment decides.
            assert_eq!(seen(&harness, id).await, state(status, version + 1, true));
            assert_eq!(published(&harness, id).await, 1);
        }
    }
}

#[tokio::test]
async fn event_names_order_attempt_and_correlation_id() {
    let harness = Harness::start().await;
    let id = harness.order_in("declined").await;
    harness.pay("k-pay", id, "pm_card_ok").await.expect(201);
    let request = harness.request(Method::DELETE, &format!("/orders/{id}"));
    let response = send(request.header("x-correlation-id", "req-7")).await;
    response.expect(204);
    let (payload, correlation_id): (String, String) = sqlx::query_as(
        "select payload, correlation_id from outbox where event_type = 'order.cancel_requested'",
    )
    .fetch_one(&harness.pool)
    .await
    .unwrap();
    let payload: serde_json::Value = serde_json::from_str(&payload).unwrap();
    assert_eq!(payload, json!({"v": 1, "order_id": id, "attempt": 2}));
    assert_eq!(correlation_id, "req-7");
}

#[tokio::test]
async fn declined_order_is_cancelled_and_announced_at_once() {
    let harness = Harness::start().await;
    let id = harness.order_in("declined").await;
    for _ in 0..3 {
        harness.delete(id).await.expect(204);
        assert_eq!(seen(&harness, id).await, state("cancelled", 4, true));
    }
    assert_eq!(published(&harness, id).await, 0, "nothing to decide");
    let announced = "select payload from outbox where event_type = 'order.cancelled'";
    let announced: Vec<String> = sqlx::query_scalar(announced)
        .fetch_all(&harness.pool)
        .await
        .unwrap();
    assert_eq!(announced.len(), 1);
    let payload: serde_json::Value = serde_json::from_str(&announced[0]).unwrap();
    let expected = json!({"v": 1, "order_id": id, "attempt": 1, "customer_id": "cust-88",
                          "reason": "cancelled"});
    assert_eq!(payload, expected);
}

#[tokio::test]
async fn repeated_request_gets_204_unless_shipped() {
    let harness = Harness::start().await;
    for (status, version) in [
        ("paid", 3),
        ("declined", 3),
        ("cancelled", 4),
        ("refunded", 4),
    ] {
        let id = harness.order_in("placed").await;
        harness.delete(id).await.expect(204);
        harness.move_to(id, status).await;
        harness.delete(id).await.expect(204);
        assert_eq!(seen(&harness, id).await, state(status, version, true));
        assert_eq!(published(&harness, id).await, 1);
    }
}

#[tokio::test]
async fn refunded_order_records_no_cancellation_request() {
    let harness = Harness::start().await;
    let id = harness.order_in("refunded").await;
    harness.delete(id).await.expect(204);
    assert_eq!(seen(&harness, id).await, state("refunded", 3, false));
    assert_eq!(published(&harness, id).await, 0);
}

#[tokio::test]
async fn shipped_order_cannot_be_cancelled() {
    let harness = Harness::start().await;
    let shipped = harness.order_in("shipped").await;
    let requested = harness.order_in("placed").await;
    harness.delete(requested).await.expect(204);
    harness.move_to(requested, "shipped").await;
    for (id, expected) in [
        (shipped, state("shipped", 3, false)),
        (requested, state("shipped", 4, true)),
    ] {
        let rejected = harness.delete(id).await;
        rejected.expect_problem(409, "order_shipped");
        assert_eq!(seen(&harness, id).await, expected);
    }
    assert_eq!(published(&harness, shipped).await, 0);
    assert_eq!(published(&harness, requested).await, 1);
}

#[tokio::test]
async fn unknown_or_foreign_order_cannot_be_cancelled() {
    let harness = Harness::start().await;
    let id = harness.order_in("placed").await;
    let request = harness.anonymous(Method::DELETE, &format!("/orders/{id}"));
    let foreign = send(request.bearer_auth(GLOBEX)).await;
    let foreign = foreign.expect_problem(404, "order_not_found");
    let missing = harness.delete(Uuid::new_v4()).await;
    let missing = missing.expect_problem(404, "order_not_found");
    assert_eq!(foreign["detail"], missing["detail"]);
    assert_eq!(seen(&harness, id).await, state("placed", 1, false));
    assert_eq!(published(&harness, id).await, 0);
    let malformed = send(harness.request(Method::DELETE, "/orders/4711")).await;
    malformed.expect_problem(400, "malformed_order_id");
}

#[tokio::test]
async fn outdated_version_is_not_cancelled() {
    let harness = Harness::start().await;
    for status in ["paid", "declined", "shipped", "refunded"] {
        let id = harness.order_in(status).await;
        let before = seen(&harness, id).await;
        for tags in ["\"1\"", "\"7\", \"9\"", "W/\"2\", W/\"3\"", "\"22\""] {
            let rejected = delete_if_match(&harness, id, tags).await;
            rejected.expect_problem(412, "precondition_failed");
        }
        for tags in ["2", "", "\"2", "\"2\", *"] {
            let malformed = delete_if_match(&harness, id, tags).await;
            malformed.expect_problem(400, "malformed_if_match");
        }
        assert_eq!(seen(&harness, id).await, before);
        assert_eq!(published(&harness, id).await, 0);
    }
    for tags in ["\"2\"", "\"1\", \"2\"", "*"] {
        let id = harness.order_in("paid").await;
        delete_if_match(&harness, id, tags).await.expect(204);
        assert_eq!(seen(&harness, id).await, state("paid", 3, true));
        // The request changed the version. A client that lost the response may still retry.
        delete_if_match(&harness, id, tags).await.expect(204);
        assert_eq!(published(&harness, id).await, 1);
    }
}

#[tokio::test]
async fn concurrent_cancellation_requests_count_as_one() {
    let harness = Harness::start().await;
    for _ in 0..5 {
        let id = harness.order_in("paid").await;
        for response in join_all((0..20).map(|_| harness.delete(id))).await {
            response.expect(204);
        }
        assert_eq!(seen(&harness, id).await, state("paid", 3, true));
        assert_eq!(published(&harness, id).await, 1);
    }
}

#[tokio::test]
async fn request_without_its_event_is_not_recorded() {
    let harness = Harness::start().await;
    let id = harness.order_in("placed").await;
    harness.run_sql(KILL_WRITERS).await;
    let failed = harness.delete(id).await;
    failed.expect_problem(503, "temporarily_unavailable");
    assert_eq!(failed.header("retry-after"), Some("1"));
    harness.run_sql(HEAL).await;
    assert_eq!(seen(&harness, id).await, state("placed", 1, false));
    harness.delete(id).await.expect(204);
    assert_eq!(seen(&harness, id).await, state("placed", 2, true));
    assert_eq!(published(&harness, id).await, 1);
}

#[tokio::test]
async fn retry_finds_a_commit_whose_response_was_lost() {
    let database_url = crate::harness::migrated().await;
    let proxy = FaultProxy::to(&database_url).await.unwrap();
    let harness = Harness::start_on(&proxy.url, |_| ()).await;
    let id = harness.order_in("placed").await;
    let _held = harness.hold_maintenance().await;
    proxy.lose_commit(Loss::Response);
    let lost = harness.delete(id).await;
    assert!(proxy.has_lost());
    lost.expect_problem(503, "temporarily_unavailable");
    assert_eq!(lost.header("retry-after"), Some("1"));
    assert_eq!(seen(&harness, id).await, state("placed", 2, true));
    // The retry sends the version of the first request.
    delete_if_match(&harness, id, "\"1\"").await.expect(204);
    assert_eq!(seen(&harness, id).await, state("placed", 2, true));
    assert_eq!(published(&harness, id).await, 1);
}

#[tokio::test]
async fn order_locked_too_long_is_unavailable() {
    let harness = Harness::start().await;
    let id = harness.order_in("placed").await;
    let mut connection = harness.pool.acquire().await.unwrap();
    let mut held = connection.begin().await.unwrap();
    sqlx::query("select from orders for update")
        .execute(&mut *held)
        .await
        .unwrap();
    let rejected = harness.delete(id).await;
    rejected.expect_problem(503, "temporarily_unavailable");
    held.rollback().await.unwrap();
    assert_eq!(seen(&harness, id).await, state("placed", 1, false));
    harness.delete(id).await.expect(204);
}

#[tokio::test]
async fn repeated_put_does_not_revive_a_cancelled_order() {
    let harness = Harness::start().await;
    let id = Uuid::new_v4();
    harness.put(id, &order()).await.expect(201);
    harness.move_to(id, "declined").await;
    harness.delete(id).await.expect(204);
    // The order stays cancelled.
    let again = harness.put(id, &order()).await;
    assert_eq!(again.expect(200).json()["status"], "cancelled");
    assert_eq!(harness.stored().await.orders, 1);
}
