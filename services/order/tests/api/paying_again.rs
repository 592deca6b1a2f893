//! `POST /orders/{id}/payments`: a declined order gets one more attempt per key, and never two open
//! attempts.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::fault_proxy::{FaultProxy, Loss};
use uuid::Uuid;

use crate::harness::{GLOBEX, Harness, KEY, migrated, send};

const EXPIRE: &str = "update idempotency_keys set expires_at = now() - interval '1 second'";
const FUTURE_FORMAT: &str = "update idempotency_keys set response_version = 99, response_body = '\\x00', \
     response_headers = '[]'";
/// Kills every backend that writes an event, before it can commit.
const KILL_WRITERS: &str = "
    create function die() returns trigger language plpgsql as
    $$ begin perform pg_terminate_backend(pg_backend_pid()); return new; end $$;
    create trigger die before insert on outbox for each row execute function die()";
const HEAL: &str = "drop function die() cascade";

/// Status, version, attempt and payment method, as `GET` shows them.
async fn seen(harness: &Harness, id: Uuid) -> Value {
    let view = harness.get(&format!("/orders/{id}")).await.json();
    json!([
        view["status"],
        view["version"],
        view["attempt"],
        view["payment_method"]
    ])
}

async fn requested(harness: &Harness, id: Uuid) -> i64 {
    harness.events(id, "order.payment_requested").await
}

/// The number of stored keys of this route.
async fn keys(harness: &Harness) -> i64 {
    sqlx::query_scalar(
        "select count(*) from idempotency_keys where route = 'POST /orders/{id}/payments'",
    )
    .fetch_one(&harness.pool)
    .await
    .unwrap()
}

#[tokio::test]
async fn declined_order_is_paid_again_by_a_new_attempt() {
    let harness = Harness::start().await;
    let id = harness.order_in("declined").await;
    let response = harness.pay("k-1", id, "pm_other").await;
    let location = format!("/orders/{id}");
    assert_eq!(
        response.expect(201).header("location"),
        Some(location.as_str())
    );
    assert!(!response.is_replay());
    let expected = json!({
        "order_id": id, "attempt": 2, "status": "placed", "payment_method": "pm_other",
        "amount": 5000, "currency": "USD", "version": 3,
    });
    assert_eq!(response.json(), expected);
    let now = json!(["placed", 3, 2, "pm_other"]);
    assert_eq!(seen(&harness, id).await, now);

    // After another decline, the order can be paid again.
    harness.move_to(id, "declined").await;
    let response = harness.pay("k-2", id, "pm_third").await;
    assert_eq!(response.expect(201).json()["attempt"], 3);
    let now = json!(["placed", 5, 3, "pm_third"]);
    assert_eq!(seen(&harness, id).await, now);
    assert_eq!(requested(&harness, id).await, 2);
}

#[tokio::test]
async fn event_has_everything_that_a_charge_needs() {
    let harness = Harness::start().await;
    let id = harness.order_in("declined").await;
    let paid = harness.pay("k-1", id, "pm_other").await;
    let (payload, correlation_id): (String, String) = sqlx::query_as(
        "select payload, correlation_id from outbox where event_type = 'order.payment_requested'",
    )
    .fetch_one(&harness.pool)
    .await
    .unwrap();
    let payload: Value = serde_json::from_str(&payload).unwrap();
    let expected = json!({
        "v": 2, "principal_id": "acme", "order_id": id, "attempt": 2, "customer_id": "cust-88", "amount": 5000,
        "currency": "USD", "payment_method": "pm_other",
        "lines": [{"sku": "SKU-99", "quantity": 2}],
    });
    assert_eq!(payload, expected);
    assert_eq!(
        paid.header("x-correlation-id"),
        Some(correlation_id.as_str())
    );
}

#[tokio::test]
async fn repeat_gets_the_first_response_at_any_status() {
    let harness = Harness::start().await;
    let id = harness.order_in("declined").await;
    let first = harness.pay("k-1", id, "pm_other").await;
    for status in ["placed", "declined"] {
        harness.move_to(id, status).await;
        let again = harness.pay("k-1", id, "pm_other").await;
        assert!(again.expect(201).is_replay());
        assert_eq!(again.body, first.body);
        for name in ["content-type", "location"] {
            assert_eq!(again.header(name), first.header(name), "{name}");
        }
    }
    assert_eq!(
        seen(&harness, id).await,
        json!(["declined", 4, 2, "pm_other"])
    );
    assert_eq!(requested(&harness, id).await, 1);
}

#[tokio::test]
async fn open_attempt_blocks_another_and_frees_the_key() {
    let harness = Harness::start().await;
    let id = harness.order_in("placed").await;
    for _ in 0..2 {
        let rejected = harness.pay("k-1", id, "pm_other").await;
        let problem = rejected.expect_problem(409, "payment_open");
        assert_eq!(problem["order_url"], format!("/orders/{id}"));
        assert_eq!(rejected.header("retry-after"), Some("1"));
        assert!(!rejected.is_replay());
    }
    assert_eq!(keys(&harness).await, 0);
    assert_eq!(requested(&harness, id).await, 0);
    // After the decline, the same key opens an attempt.
    harness.move_to(id, "declined").await;
    harness.pay("k-1", id, "pm_other").await.expect(201);
    assert_eq!(
        seen(&harness, id).await,
        json!(["placed", 3, 2, "pm_other"])
    );
}

#[tokio::test]
async fn paid_or_cancelled_order_is_a_final_conflict() {
    let harness = Harness::start().await;
    let cancel_requested = harness.order_in("placed").await;
    harness.delete(cancel_requested).await.expect(204);
    let requested_and_declined = harness.order_in("placed").await;
    harness.delete(requested_and_declined).await.expect(204);
    harness.move_to(requested_and_declined, "declined").await;
    let cases = [
        (harness.order_in("paid").await, "already_paid"),
        (harness.order_in("shipped").await, "already_paid"),
        (harness.order_in("refunded").await, "already_paid"),
        (harness.order_in("cancelled").await, "order_cancelled"),
        (cancel_requested, "order_cancelled"),
        (requested_and_declined, "order_cancelled"),
    ];
    for (number, (id, code)) in (0..).zip(cases) {
        let before = seen(&harness, id).await;
        let key = format!("k-{number}");
        let rejected = harness.pay(&key, id, "pm_other").await;
        rejected.expect_problem(409, code);
        assert!(!rejected.is_replay());
        // A definite failure is a result: it is stored and replayed.
        let again = harness.pay(&key, id, "pm_other").await;
        again.expect_problem(409, code);
        assert!(again.is_replay(), "{code}");
        assert_eq!(again.body, rejected.body);
        assert_eq!(seen(&harness, id).await, before);
        assert_eq!(requested(&harness, id).await, 0);
    }
    assert_eq!(keys(&harness).await, 6);
}

#[tokio::test]
async fn two_concurrent_keys_open_one_attempt() {
    let harness = Harness::start().await;
    for round in 0..20 {
        let id = harness.order_in("declined").await;
        let (one, two) = (format!("one-{round}"), format!("two-{round}"));
        let (one, two) = tokio::join!(
            harness.pay(&one, id, "pm_one"),
            harness.pay(&two, id, "pm_two")
        );
        let (opened, rejected) = if one.status == 201 {
            (one, two)
        } else {
            (two, one)
        };
        assert_eq!(opened.expect(201).json()["attempt"], 2);
        rejected.expect_problem(409, "payment_open");
        let now = json!(["placed", 3, 2, opened.json()["payment_method"]]);
        assert_eq!(seen(&harness, id).await, now);
        assert_eq!(requested(&harness, id).await, 1);
    }
}

#[tokio::test]
async fn concurrent_duplicates_open_one_attempt() {
    let harness = Harness::start().await;
    let id = harness.order_in("declined").await;
    let responses = join_all((0..20).map(|_| harness.pay("k-1", id, "pm_other"))).await;
    let mut originals = 0;
    for response in &responses {
        if response.status == 201 {
            originals += usize::from(!response.is_replay());
        } else {
            let problem = response.expect_problem(409, "idempotency_key_in_flight");
            assert_eq!(problem["order_url"], format!("/orders/{id}"));
            assert_eq!(response.header("retry-after"), Some("1"));
        }
    }
    assert_eq!(originals, 1);
    assert_eq!(requested(&harness, id).await, 1);
    assert_eq!(
        seen(&harness, id).await,
        json!(["placed", 3, 2, "pm_other"])
    );
}

#[tokio::test]
async fn key_of_another_method_or_order_is_rejected() {
    let harness = Harness::start().await;
    let id = harness.order_in("declined").await;
    let other = harness.order_in("declined").await;
    harness.pay("k-1", id, "pm_other").await.expect(201);
    for (id, method) in [(id, "pm_third"), (other, "pm_other")] {
        let rejected = harness.pay("k-1", id, method).await;
        rejected.expect_problem(422, "idempotency_key_reused");
    }
    assert_eq!(requested(&harness, id).await, 1);
    assert_eq!(requested(&harness, other).await, 0);
    // On another route the same text is a different key.
    let placed = harness.post("k-1", &crate::harness::order()).await;
    assert!(!placed.expect(201).is_replay());
}

#[tokio::test]
async fn missing_key_or_malformed_body_changes_nothing() {
    let harness = Harness::start().await;
    let id = harness.order_in("declined").await;
    let before = seen(&harness, id).await;
    let post = || harness.request(Method::POST, &format!("/orders/{id}/payments"));
    let good = json!({"payment_method": "pm_card_ok"});
    let unkeyed = send(post().json(&good)).await;
    unkeyed.expect_problem(400, "malformed_idempotency_key");
    let untyped = send(post().header(KEY, "k-1").body(good.to_string())).await;
    untyped.expect_problem(415, "unsupported_media_type");
    let torn = post()
        .header(KEY, "k-1")
        .header("content-type", "application/json");
    let torn = send(torn.body("{")).await;
    torn.expect_problem(400, "malformed_json");
    for body in [
        json!({}),
        json!([]),
        json!({"payment_method": ""}),
        json!({"payment_method": "two words"}),
        json!({"payment_method": "p".repeat(65)}),
        json!({"payment_method": 7}),
        json!({"payment_method": "pm_card_ok", "amount": 1}),
    ] {
        let rejected = send(post().header(KEY, "k-1").json(&body)).await;
        rejected.expect_problem(422, "invalid_payment");
    }
    assert_eq!(keys(&harness).await, 0);
    assert_eq!(seen(&harness, id).await, before);
    // The key is still free.
    harness.pay("k-1", id, "pm_card_ok").await.expect(201);
}

#[tokio::test]
async fn unknown_or_foreign_order_cannot_be_paid() {
    let harness = Harness::start().await;
    let id = harness.order_in("declined").await;
    let body = json!({"payment_method": "pm_card_ok"});
    let request = harness.anonymous(Method::POST, &format!("/orders/{id}/payments"));
    let foreign = send(request.bearer_auth(GLOBEX).header(KEY, "k-1").json(&body)).await;
    foreign.expect_problem(404, "order_not_found");
    let missing = harness.pay("k-1", Uuid::new_v4(), "pm_card_ok").await;
    missing.expect_problem(404, "order_not_found");
    assert_eq!(keys(&harness).await, 0);
    assert_eq!(requested(&harness, id).await, 0);
}

#[tokio::test]
async fn failure_stores_nothing_and_frees_the_key() {
    let harness = Harness::start().await;
    let id = harness.order_in("declined").await;
    let before = seen(&harness, id).await;
    harness.run_sql(KILL_WRITERS).await;
    let failed = harness.pay("k-1", id, "pm_other").await;
    failed.expect_problem(503, "temporarily_unavailable");
    assert_eq!(failed.header("retry-after"), Some("1"));
    harness.run_sql(HEAL).await;
    assert_eq!(seen(&harness, id).await, before);
    assert_eq!(keys(&harness).await, 0);
    let paid = harness.pay("k-1", id, "pm_other").await;
    assert!(!paid.expect(201).is_replay());
    assert_eq!(requested(&harness, id).await, 1);
}

#[tokio::test]
async fn retry_replays_a_commit_whose_response_was_lost() {
    let database_url = migrated().await;
    let proxy = FaultProxy::to(&database_url).await.unwrap();
    let harness = Harness::start_on(&proxy.url, |_| ()).await;
    let id = harness.order_in("declined").await;
    let _held = harness.hold_maintenance().await;
    proxy.lose_commit(Loss::Response);
    let lost = harness.pay("k-1", id, "pm_other").await;
    assert!(proxy.has_lost());
    lost.expect_problem(503, "temporarily_unavailable");
    assert_eq!(lost.header("retry-after"), Some("1"));
    let again = harness.pay("k-1", id, "pm_other").await;
    assert!(again.expect(201).is_replay());
    assert_eq!(again.json()["attempt"], 2);
    assert_eq!(
        seen(&harness, id).await,
        json!(["placed", 3, 2, "pm_other"])
    );
    assert_eq!(requested(&harness, id).await, 1);
}

#[tokio::test]
async fn after_the_window_the_order_itself_prevents_repeats() {
    let harness = Harness::start().await;
    let id = harness.order_in("declined").await;
    harness.pay("k-1", id, "pm_other").await.expect(201);
    harness.run_sql(EXPIRE).await;
    let again = harness.pay("k-1", id, "pm_other").await;
    again.expect_problem(409, "payment_open");
    harness.move_to(id, "paid").await;
    harness.run_sql(EXPIRE).await;
    let again = harness.pay("k-1", id, "pm_other").await;
    again.expect_problem(409, "already_paid");
    assert_eq!(requested(&harness, id).await, 1);
}

#[tokio::test]
async fn unknown_response_format_opens_no_further_attempt() {
    let harness = Harness::start().await;
    let id = harness.order_in("declined").await;
    harness.pay("k-1", id, "pm_other").await.expect(201);
    harness.move_to(id, "declined").await;
    harness.run_sql(FUTURE_FORMAT).await;
    let again = harness.pay("k-1", id, "pm_other").await;
    assert!(again.expect(200).is_replay());
    assert_eq!(
        (&again.json()["attempt"], &again.json()["status"]),
        (&json!(2), &json!("declined"))
    );
    let other = harness.pay("k-1", id, "pm_third").await;
    other.expect_problem(422, "idempotency_key_reused");
    assert_eq!(requested(&harness, id).await, 1);
}
