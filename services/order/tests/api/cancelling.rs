//! `DELETE /orders/{id}`: the wish is recorded once, and only while it can still come true.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::json;
use sqlx::Connection as _;
use testkit::fault_proxy::{FaultProxy, Loss};
use uuid::Uuid;

use crate::answer::Answer;
use crate::service::{GLOBEX, Service, order, send};

/// Every backend that writes an event is killed before it can commit.
const KILL_WRITERS: &str = "
    create function die() returns trigger language plpgsql as
    $$ begin perform pg_terminate_backend(pg_backend_pid()); return new; end $$;
    create trigger die before insert on outbox for each row execute function die()";
const HEAL: &str = "drop function die() cascade";

async fn delete_if_match(service: &Service, id: Uuid, tags: &str) -> Answer {
    let request = service.request(Method::DELETE, &format!("/orders/{id}"));
    send(request.header("if-match", tags)).await
}

/// Status, version, and whether the wish is there; as `GET` shows them.
async fn seen(service: &Service, id: Uuid) -> (String, i64, bool) {
    let view = service.get(&format!("/orders/{id}")).await.json();
    (
        view["status"].as_str().unwrap().to_owned(),
        view["version"].as_i64().unwrap(),
        view["cancel_requested"].as_bool().unwrap(),
    )
}

fn state(status: &str, version: i64, cancel_requested: bool) -> (String, i64, bool) {
    (status.to_owned(), version, cancel_requested)
}

/// How often the wish was announced.
async fn announced(service: &Service, id: Uuid) -> i64 {
    service.events(id, "order.cancel_requested").await
}

#[tokio::test]
async fn the_wish_of_a_placed_or_paid_order_is_stored_and_announced_once() {
    let service = Service::start().await;
    for (status, version) in [("placed", 1), ("paid", 2)] {
        let id = service.order_in(status).await;
        assert_eq!(seen(&service, id).await, state(status, version, false));
        for _ in 0..3 {
            let answer = service.delete(id).await;
            assert!(answer.expect(204).body.is_empty());
            // A wish, not a fact: the state is fulfilment's to change.
            assert_eq!(seen(&service, id).await, state(status, version + 1, true));
            assert_eq!(announced(&service, id).await, 1);
        }
    }
}

#[tokio::test]
async fn the_event_names_the_order_its_attempt_and_the_request() {
    let service = Service::start().await;
    let id = service.order_in("declined").await;
    service.pay("k-pay", id, "pm_card_ok").await.expect(201);
    let request = service.request(Method::DELETE, &format!("/orders/{id}"));
    let answer = send(request.header("x-correlation-id", "req-7")).await;
    answer.expect(204);
    let (payload, correlation_id): (String, String) = sqlx::query_as(
        "select payload, correlation_id from outbox where event_type = 'order.cancel_requested'",
    )
    .fetch_one(&service.pool)
    .await
    .unwrap();
    let payload: serde_json::Value = serde_json::from_str(&payload).unwrap();
    assert_eq!(payload, json!({"v": 1, "order_id": id, "attempt": 2}));
    assert_eq!(correlation_id, "req-7");
}

#[tokio::test]
async fn a_declined_order_is_cancelled_at_once_and_nobody_is_asked() {
    let service = Service::start().await;
    let id = service.order_in("declined").await;
    for _ in 0..3 {
        service.delete(id).await.expect(204);
        assert_eq!(seen(&service, id).await, state("cancelled", 4, true));
    }
    assert_eq!(announced(&service, id).await, 0);
}

#[tokio::test]
async fn a_wish_goes_on_being_answered_204_whatever_came_of_it_but_a_shipment() {
    let service = Service::start().await;
    for (status, version) in [
        ("paid", 3),
        ("declined", 3),
        ("cancelled", 4),
        ("refunded", 4),
    ] {
        let id = service.order_in("placed").await;
        service.delete(id).await.expect(204);
        service.move_to(id, status).await;
        service.delete(id).await.expect(204);
        assert_eq!(seen(&service, id).await, state(status, version, true));
        assert_eq!(announced(&service, id).await, 1);
    }
}

#[tokio::test]
async fn an_order_that_was_refunded_without_a_wish_has_nothing_left_to_cancel() {
    let service = Service::start().await;
    let id = service.order_in("refunded").await;
    service.delete(id).await.expect(204);
    assert_eq!(seen(&service, id).await, state("refunded", 3, false));
    assert_eq!(announced(&service, id).await, 0);
}

#[tokio::test]
async fn a_shipped_order_cannot_be_cancelled_even_if_the_wish_came_before() {
    let service = Service::start().await;
    let shipped = service.order_in("shipped").await;
    let wished = service.order_in("placed").await;
    service.delete(wished).await.expect(204);
    service.move_to(wished, "shipped").await;
    for (id, expected) in [
        (shipped, state("shipped", 3, false)),
        (wished, state("shipped", 4, true)),
    ] {
        let refused = service.delete(id).await;
        refused.expect_problem(409, "order_shipped");
        assert_eq!(seen(&service, id).await, expected);
    }
    assert_eq!(announced(&service, shipped).await, 0);
    assert_eq!(announced(&service, wished).await, 1);
}

#[tokio::test]
async fn an_order_of_somebody_else_or_of_nobody_is_not_found() {
    let service = Service::start().await;
    let id = service.order_in("placed").await;
    let request = service.anonymous(Method::DELETE, &format!("/orders/{id}"));
    let theirs = send(request.bearer_auth(GLOBEX)).await;
    let theirs = theirs.expect_problem(404, "order_not_found");
    let none = service.delete(Uuid::new_v4()).await;
    let none = none.expect_problem(404, "order_not_found");
    assert_eq!(theirs["detail"], none["detail"]);
    assert_eq!(seen(&service, id).await, state("placed", 1, false));
    assert_eq!(announced(&service, id).await, 0);
    let malformed = send(service.request(Method::DELETE, "/orders/4711")).await;
    malformed.expect_problem(400, "malformed_order_id");
}

#[tokio::test]
async fn a_version_that_has_passed_is_not_cancelled() {
    let service = Service::start().await;
    for status in ["paid", "declined", "shipped", "refunded"] {
        let id = service.order_in(status).await;
        let before = seen(&service, id).await;
        for tags in ["\"1\"", "\"7\", \"9\"", "W/\"2\", W/\"3\"", "\"22\""] {
            let refused = delete_if_match(&service, id, tags).await;
            refused.expect_problem(412, "precondition_failed");
        }
        for tags in ["2", "", "\"2", "\"2\", *"] {
            let malformed = delete_if_match(&service, id, tags).await;
            malformed.expect_problem(400, "malformed_if_match");
        }
        assert_eq!(seen(&service, id).await, before);
        assert_eq!(announced(&service, id).await, 0);
    }
    for tags in ["\"2\"", "\"1\", \"2\"", "*"] {
        let id = service.order_in("paid").await;
        delete_if_match(&service, id, tags).await.expect(204);
        assert_eq!(seen(&service, id).await, state("paid", 3, true));
        // The wish moved the version on; who did not hear the answer may still ask again.
        delete_if_match(&service, id, tags).await.expect(204);
        assert_eq!(announced(&service, id).await, 1);
    }
}

#[tokio::test]
async fn many_wishes_at_once_are_one() {
    let service = Service::start().await;
    for _ in 0..5 {
        let id = service.order_in("paid").await;
        for answer in join_all((0..20).map(|_| service.delete(id))).await {
            answer.expect(204);
        }
        assert_eq!(seen(&service, id).await, state("paid", 3, true));
        assert_eq!(announced(&service, id).await, 1);
    }
}

#[tokio::test]
async fn a_wish_that_could_not_be_announced_is_not_recorded_either() {
    let service = Service::start().await;
    let id = service.order_in("placed").await;
    service.meddle(KILL_WRITERS).await;
    let failed = service.delete(id).await;
    failed.expect_problem(503, "temporarily_unavailable");
    assert_eq!(failed.header("retry-after"), Some("1"));
    service.meddle(HEAL).await;
    assert_eq!(seen(&service, id).await, state("placed", 1, false));
    service.delete(id).await.expect(204);
    assert_eq!(seen(&service, id).await, state("placed", 2, true));
    assert_eq!(announced(&service, id).await, 1);
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_found_by_the_retry() {
    let database_url = crate::service::migrated().await;
    let wire = FaultProxy::to(&database_url).await.unwrap();
    let service = Service::start_on(&wire.url, |_| ()).await;
    let id = service.order_in("placed").await;
    let _held = service.hold_maintenance().await;
    wire.lose_commit(Loss::Response);
    let lost = service.delete(id).await;
    assert!(wire.has_lost());
    lost.expect_problem(503, "temporarily_unavailable");
    assert_eq!(lost.header("retry-after"), Some("1"));
    assert_eq!(seen(&service, id).await, state("placed", 2, true));
    // With the version that it was first sent with, as a retry would be.
    delete_if_match(&service, id, "\"1\"").await.expect(204);
    assert_eq!(seen(&service, id).await, state("placed", 2, true));
    assert_eq!(announced(&service, id).await, 1);
}

#[tokio::test]
async fn an_order_that_somebody_holds_too_long_is_unavailable_and_not_cancelled() {
    let service = Service::start().await;
    let id = service.order_in("placed").await;
    let mut connection = service.pool.acquire().await.unwrap();
    let mut held = connection.begin().await.unwrap();
    sqlx::query("select from orders for update")
        .execute(&mut *held)
        .await
        .unwrap();
    let refused = service.delete(id).await;
    refused.expect_problem(503, "temporarily_unavailable");
    held.rollback().await.unwrap();
    assert_eq!(seen(&service, id).await, state("placed", 1, false));
    service.delete(id).await.expect(204);
}

#[tokio::test]
async fn a_cancelled_order_is_still_the_order_that_was_put() {
    let service = Service::start().await;
    let id = Uuid::new_v4();
    service.put(id, &order()).await.expect(201);
    service.move_to(id, "declined").await;
    service.delete(id).await.expect(204);
    // It does not come back to life.
    let again = service.put(id, &order()).await;
    assert_eq!(again.expect(200).json()["status"], "cancelled");
    assert_eq!(service.stored().await.orders, 1);
}
