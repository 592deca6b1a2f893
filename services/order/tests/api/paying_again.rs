//! `POST /orders/{id}/payments`: a declined order gets one more attempt per key, and never two at
//! once.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::fault_proxy::{FaultProxy, Loss};
use uuid::Uuid;

use crate::service::{GLOBEX, KEY, Service, migrated, send};

const EXPIRE: &str = "update idempotency_keys set expires_at = now() - interval '1 second'";
const FROM_THE_FUTURE: &str = "update idempotency_keys set response_version = 99, response_body = '\\x00', \
     response_headers = '[]'";
/// Every backend that writes an event is killed before it can commit.
const KILL_WRITERS: &str = "
    create function die() returns trigger language plpgsql as
    $$ begin perform pg_terminate_backend(pg_backend_pid()); return new; end $$;
    create trigger die before insert on outbox for each row execute function die()";
const HEAL: &str = "drop function die() cascade";

/// Status, version, attempt and payment method; as `GET` shows them.
async fn seen(service: &Service, id: Uuid) -> Value {
    let view = service.get(&format!("/orders/{id}")).await.json();
    json!([
        view["status"],
        view["version"],
        view["attempt"],
        view["payment_method"]
    ])
}

async fn requested(service: &Service, id: Uuid) -> i64 {
    service.events(id, "order.payment_requested").await
}

/// Keys of this route that are stored.
async fn keys(service: &Service) -> i64 {
    sqlx::query_scalar(
        "select count(*) from idempotency_keys where route = 'POST /orders/{id}/payments'",
    )
    .fetch_one(&service.pool)
    .await
    .unwrap()
}

#[tokio::test]
async fn a_declined_order_is_paid_again_with_another_method_and_attempt() {
    let service = Service::start().await;
    let id = service.order_in("declined").await;
    let answer = service.pay("k-1", id, "pm_other").await;
    let location = format!("/orders/{id}");
    assert_eq!(
        answer.expect(201).header("location"),
        Some(location.as_str())
    );
    assert!(!answer.is_replay());
    let expected = json!({
        "order_id": id, "attempt": 2, "status": "placed", "payment_method": "pm_other",
        "amount": 5000, "currency": "USD", "version": 3,
    });
    assert_eq!(answer.json(), expected);
    let now = json!(["placed", 3, 2, "pm_other"]);
    assert_eq!(seen(&service, id).await, now);

    // And once more, if that is declined too.
    service.move_to(id, "declined").await;
    let answer = service.pay("k-2", id, "pm_third").await;
    assert_eq!(answer.expect(201).json()["attempt"], 3);
    let now = json!(["placed", 5, 3, "pm_third"]);
    assert_eq!(seen(&service, id).await, now);
    assert_eq!(requested(&service, id).await, 2);
}

#[tokio::test]
async fn the_event_has_all_that_a_charge_needs() {
    let service = Service::start().await;
    let id = service.order_in("declined").await;
    let paid = service.pay("k-1", id, "pm_other").await;
    let (payload, correlation_id): (String, String) = sqlx::query_as(
        "select payload, correlation_id from outbox where event_type = 'order.payment_requested'",
    )
    .fetch_one(&service.pool)
    .await
    .unwrap();
    let payload: Value = serde_json::from_str(&payload).unwrap();
    let expected = json!({
        "v": 1, "order_id": id, "attempt": 2, "customer_id": "cust-88", "amount": 5000,
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
async fn a_repeat_gets_the_first_answer_whatever_became_of_the_order() {
    let service = Service::start().await;
    let id = service.order_in("declined").await;
    let first = service.pay("k-1", id, "pm_other").await;
    for status in ["placed", "declined"] {
        service.move_to(id, status).await;
        let again = service.pay("k-1", id, "pm_other").await;
        assert!(again.expect(201).is_replay());
        assert_eq!(again.body, first.body);
        for name in ["content-type", "location"] {
            assert_eq!(again.header(name), first.header(name), "{name}");
        }
    }
    assert_eq!(
        seen(&service, id).await,
        json!(["declined", 4, 2, "pm_other"])
    );
    assert_eq!(requested(&service, id).await, 1);
}

#[tokio::test]
async fn while_an_attempt_is_open_there_is_no_other_and_the_key_stays_free() {
    let service = Service::start().await;
    let id = service.order_in("placed").await;
    for _ in 0..2 {
        let refused = service.pay("k-1", id, "pm_other").await;
        let problem = refused.expect_problem(409, "payment_open");
        assert_eq!(problem["order_url"], format!("/orders/{id}"));
        assert_eq!(refused.header("retry-after"), Some("1"));
        assert!(!refused.is_replay());
    }
    assert_eq!(keys(&service).await, 0);
    assert_eq!(requested(&service, id).await, 0);
    // It was declined meanwhile: the same key gets what it asked for.
    service.move_to(id, "declined").await;
    service.pay("k-1", id, "pm_other").await.expect(201);
    assert_eq!(
        seen(&service, id).await,
        json!(["placed", 3, 2, "pm_other"])
    );
}

#[tokio::test]
async fn an_order_that_is_paid_or_called_off_refuses_for_good() {
    let service = Service::start().await;
    let wished = service.order_in("placed").await;
    service.delete(wished).await.expect(204);
    let wished_and_declined = service.order_in("placed").await;
    service.delete(wished_and_declined).await.expect(204);
    service.move_to(wished_and_declined, "declined").await;
    let cases = [
        (service.order_in("paid").await, "already_paid"),
        (service.order_in("shipped").await, "already_paid"),
        (service.order_in("refunded").await, "already_paid"),
        (service.order_in("cancelled").await, "order_cancelled"),
        (wished, "order_cancelled"),
        (wished_and_declined, "order_cancelled"),
    ];
    for (number, (id, code)) in (0..).zip(cases) {
        let before = seen(&service, id).await;
        let key = format!("k-{number}");
        let refused = service.pay(&key, id, "pm_other").await;
        refused.expect_problem(409, code);
        assert!(!refused.is_replay());
        // A definite failure is a result: it is stored and replayed.
        let again = service.pay(&key, id, "pm_other").await;
        again.expect_problem(409, code);
        assert!(again.is_replay(), "{code}");
        assert_eq!(again.body, refused.body);
        assert_eq!(seen(&service, id).await, before);
        assert_eq!(requested(&service, id).await, 0);
    }
    assert_eq!(keys(&service).await, 6);
}

#[tokio::test]
async fn two_keys_at_once_open_one_attempt() {
    let service = Service::start().await;
    for round in 0..20 {
        let id = service.order_in("declined").await;
        let (one, two) = (format!("one-{round}"), format!("two-{round}"));
        let (one, two) = tokio::join!(
            service.pay(&one, id, "pm_one"),
            service.pay(&two, id, "pm_two")
        );
        let (opened, refused) = if one.status == 201 {
            (one, two)
        } else {
            (two, one)
        };
        assert_eq!(opened.expect(201).json()["attempt"], 2);
        refused.expect_problem(409, "payment_open");
        let now = json!(["placed", 3, 2, opened.json()["payment_method"]]);
        assert_eq!(seen(&service, id).await, now);
        assert_eq!(requested(&service, id).await, 1);
    }
}

#[tokio::test]
async fn one_key_many_times_at_once_opens_one_attempt() {
    let service = Service::start().await;
    let id = service.order_in("declined").await;
    let answers = join_all((0..20).map(|_| service.pay("k-1", id, "pm_other"))).await;
    let mut originals = 0;
    for answer in &answers {
        if answer.status == 201 {
            originals += usize::from(!answer.is_replay());
        } else {
            let problem = answer.expect_problem(409, "idempotency_key_in_flight");
            assert_eq!(problem["order_url"], format!("/orders/{id}"));
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
    }
    assert_eq!(originals, 1);
    assert_eq!(requested(&service, id).await, 1);
    assert_eq!(
        seen(&service, id).await,
        json!(["placed", 3, 2, "pm_other"])
    );
}

#[tokio::test]
async fn a_key_used_for_another_method_or_another_order_is_refused() {
    let service = Service::start().await;
    let id = service.order_in("declined").await;
    let other = service.order_in("declined").await;
    service.pay("k-1", id, "pm_other").await.expect(201);
    for (id, method) in [(id, "pm_third"), (other, "pm_other")] {
        let refused = service.pay("k-1", id, method).await;
        refused.expect_problem(422, "idempotency_key_reused");
    }
    assert_eq!(requested(&service, id).await, 1);
    assert_eq!(requested(&service, other).await, 0);
    // A key of another route, or another principal, is another key.
    let placed = service.post("k-1", &crate::service::order()).await;
    assert!(!placed.expect(201).is_replay());
}

#[tokio::test]
async fn without_a_key_or_a_readable_body_nothing_happens() {
    let service = Service::start().await;
    let id = service.order_in("declined").await;
    let before = seen(&service, id).await;
    let post = || service.request(Method::POST, &format!("/orders/{id}/payments"));
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
        let refused = send(post().header(KEY, "k-1").json(&body)).await;
        refused.expect_problem(422, "invalid_payment");
    }
    assert_eq!(keys(&service).await, 0);
    assert_eq!(seen(&service, id).await, before);
    // The key was not used up.
    service.pay("k-1", id, "pm_card_ok").await.expect(201);
}

#[tokio::test]
async fn an_order_of_somebody_else_or_of_nobody_is_not_found() {
    let service = Service::start().await;
    let id = service.order_in("declined").await;
    let body = json!({"payment_method": "pm_card_ok"});
    let request = service.anonymous(Method::POST, &format!("/orders/{id}/payments"));
    let theirs = send(request.bearer_auth(GLOBEX).header(KEY, "k-1").json(&body)).await;
    theirs.expect_problem(404, "order_not_found");
    let none = service.pay("k-1", Uuid::new_v4(), "pm_card_ok").await;
    none.expect_problem(404, "order_not_found");
    assert_eq!(keys(&service).await, 0);
    assert_eq!(requested(&service, id).await, 0);
}

#[tokio::test]
async fn a_failure_stores_nothing_and_the_key_stays_free() {
    let service = Service::start().await;
    let id = service.order_in("declined").await;
    let before = seen(&service, id).await;
    service.meddle(KILL_WRITERS).await;
    let failed = service.pay("k-1", id, "pm_other").await;
    failed.expect_problem(503, "temporarily_unavailable");
    assert_eq!(failed.header("retry-after"), Some("1"));
    service.meddle(HEAL).await;
    assert_eq!(seen(&service, id).await, before);
    assert_eq!(keys(&service).await, 0);
    let paid = service.pay("k-1", id, "pm_other").await;
    assert!(!paid.expect(201).is_replay());
    assert_eq!(requested(&service, id).await, 1);
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_replayed() {
    let database_url = migrated().await;
    let wire = FaultProxy::to(&database_url).await.unwrap();
    let service = Service::start_on(&wire.url, |_| ()).await;
    let id = service.order_in("declined").await;
    let _held = service.hold_maintenance().await;
    wire.lose_commit(Loss::Response);
    let lost = service.pay("k-1", id, "pm_other").await;
    assert!(wire.has_lost());
    lost.expect_problem(503, "temporarily_unavailable");
    assert_eq!(lost.header("retry-after"), Some("1"));
    let again = service.pay("k-1", id, "pm_other").await;
    assert!(again.expect(201).is_replay());
    assert_eq!(again.json()["attempt"], 2);
    assert_eq!(
        seen(&service, id).await,
        json!(["placed", 3, 2, "pm_other"])
    );
    assert_eq!(requested(&service, id).await, 1);
}

#[tokio::test]
async fn past_its_window_a_key_protects_no_more_but_the_order_does() {
    let service = Service::start().await;
    let id = service.order_in("declined").await;
    service.pay("k-1", id, "pm_other").await.expect(201);
    service.meddle(EXPIRE).await;
    let again = service.pay("k-1", id, "pm_other").await;
    again.expect_problem(409, "payment_open");
    service.move_to(id, "paid").await;
    service.meddle(EXPIRE).await;
    let again = service.pay("k-1", id, "pm_other").await;
    again.expect_problem(409, "already_paid");
    assert_eq!(requested(&service, id).await, 1);
}

#[tokio::test]
async fn behind_an_unknown_format_no_further_attempt_is_opened() {
    let service = Service::start().await;
    let id = service.order_in("declined").await;
    service.pay("k-1", id, "pm_other").await.expect(201);
    service.move_to(id, "declined").await;
    service.meddle(FROM_THE_FUTURE).await;
    let again = service.pay("k-1", id, "pm_other").await;
    assert!(again.expect(200).is_replay());
    assert_eq!(
        (&again.json()["attempt"], &again.json()["status"]),
        (&json!(2), &json!("declined"))
    );
    let other = service.pay("k-1", id, "pm_third").await;
    other.expect_problem(422, "idempotency_key_reused");
    assert_eq!(requested(&service, id).await, 1);
}
