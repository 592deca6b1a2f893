//! Answers of real providers: outcomes that come later, definite errors, stored errors, lagging lookups,
//! manual refunds.

use std::time::Duration;

use chrono::Utc;
use leases::Clock;
use payment::domain::ProviderLimits;
use payment::store::attempts;
use serde_json::{Value, json};
use uuid::Uuid;
use wiremock::ResponseTemplate;

use crate::harness::{Harness, LONG};
use crate::provider::{
    captured, charge_of, error, key_cancelled, mount_cancellation, mount_captures,
    mount_charge_response, mount_first_charge_responses, mount_look_up, mount_refund_look_up,
    mount_refunds, request_bodies,
};
use crate::rejections::reject;
use crate::stepper::{LIMITS, RESEND_MAX, Stepper};

async fn step_with(harness: &Harness, limits: ProviderLimits) -> usize {
    harness.pass_time().await;
    let (pool, psp) = (harness.pool.clone(), harness.psp.uri());
    let mut stepper = Stepper::with(pool, &psp, LONG, Clock::default(), limits);
    let answers = stepper.call().await;
    harness.record(&answers).await.unwrap()
}

async fn sent(harness: &Harness, path: &str) -> usize {
    request_bodies(&harness.psp, "POST", path).await.len()
}

fn replayed(response: ResponseTemplate) -> ResponseTemplate {
    response.insert_header("idempotent-replayed", "true")
}

fn with_status(order: Uuid, status: &str) -> Value {
    let mut charge = charge_of(order, "ch_1", &format!("pay:{order}:1"));
    charge["status"] = json!(status);
    charge
}

#[tokio::test]
async fn charge_that_is_processed_later_is_looked_up_until_it_ends() {
    for (end, status, event) in [
        ("captured", "captured", "payment.captured"),
        ("failed", "failed", "payment.failed"),
    ] {
        let harness = Harness::create().await;
        let order = harness.open_new().await;
        let pending = ResponseTemplate::new(201).set_body_json(with_status(order, "pending"));
        mount_charge_response(&harness.psp, pending).await;
        assert_eq!(harness.step().await, 0);
        assert_eq!(harness.payment(order, 1).await.status, "unknown");
        let mut ended = with_status(order, end);
        ended["failure_code"] = json!("insufficient_funds");
        mount_look_up(&harness.psp, json!([ended])).await;
        assert_eq!(harness.step().await, 1);
        assert_eq!(harness.payment(order, 1).await.status, status);
        assert_eq!(harness.event_types(order).await, [event]);
        assert_eq!(sent(&harness, "/v1/charges").await, 1, "sent once");
    }
}

#[tokio::test]
async fn definite_error_ends_the_attempt_with_its_code() {
    for status in [400, 404, 422] {
        let harness = Harness::create().await;
        let order = harness.open_new().await;
        mount_charge_response(&harness.psp, error(status, "amount_too_small")).await;
        assert_eq!(harness.step().await, 1, "{status}");
        let event = json!({
            "v": 2, "order_id": order, "attempt": 1, "failure_code": "amount_too_small",
            "retry": false, "customer_id": "cust-88",
        });
        let expected = ("payment.failed".to_owned(), event);
        assert_eq!(harness.events(order).await, [expected]);
        assert_eq!(harness.payment(order, 1).await.status, "failed");
    }
}

#[tokio::test]
async fn rejected_call_ends_no_attempt() {
    let harness = Harness::create().await;
    for response in [
        error(401, "invalid_api_key"),
        error(403, "forbidden"),
        error(408, "timeout"),
        error(409, "conflict"),
        error(425, "too_early"),
        error(429, "rate_limited"),
        error(422, "idempotency_key_reused"),
    ] {
        mount_first_charge_responses(&harness.psp, 1, response).await;
    }
    mount_captures(&harness.psp).await;
    let order = harness.open_new().await;
    for _ in 0..7 {
        assert_eq!(harness.step().await, 0);
        assert_eq!(harness.payment(order, 1).await.status, "unknown");
    }
    assert_eq!(harness.step().await, 1);
    assert_eq!(harness.payment(order, 1).await.status, "captured");
}

#[tokio::test]
async fn stored_error_is_looked_up_at_once_and_ends_the_attempt() {
    let harness = Harness::create().await;
    let order = harness.open_new().await;
    mount_first_charge_responses(&harness.psp, 1, error(500, "provider_error")).await;
    mount_charge_response(&harness.psp, replayed(error(500, "provider_error"))).await;
    mount_look_up(&harness.psp, json!([])).await;
    assert_eq!(harness.step().await, 0, "may be transient");
    assert_eq!(harness.step().await, 0, "replayed: the key is spent");
    let between = harness.payment(order, 1).await;
    assert!(between.due_in_s <= 0.0, "no backoff: {between:?}");
    assert_eq!(harness.step().await, 1, "nothing was charged");
    let events = harness.events(order).await;
    assert_eq!(events[0].0, "payment.failed");
    assert_eq!(events[0].1["retry"], true, "the order may try again");
    assert_eq!(sent(&harness, "/v1/charges").await, 2);
}

#[tokio::test]
async fn stored_error_after_a_charge_is_captured() {
    let harness = Harness::create().await;
    let order = harness.open_new().await;
    mount_charge_response(&harness.psp, replayed(error(500, "provider_error"))).await;
    mount_look_up(&harness.psp, json!([with_status(order, "captured")])).await;
    assert_eq!(harness.step().await, 0);
    assert_eq!(harness.step().await, 1);
    assert_eq!(harness.payment(order, 1).await.status, "captured");
}

#[tokio::test]
async fn young_absence_is_not_believed() {
    let harness = Harness::create().await;
    let order = harness.open_new().await;
    mount_charge_response(&harness.psp, replayed(error(500, "provider_error"))).await;
    mount_look_up(&harness.psp, json!([])).await;
    let careful = ProviderLimits {
        absence_age: Duration::from_secs(3_600),
        ..LIMITS
    };
    assert_eq!(step_with(&harness, careful).await, 0);
    for _ in 0..2 {
        assert_eq!(step_with(&harness, careful).await, 0);
        let payment = harness.payment(order, 1).await;
        assert_eq!(payment.status, "unknown");
        assert!(payment.due_in_s > 3_000.0, "waits for the age: {payment:?}");
    }
    let older = "update payments set sent_at = sent_at - interval '1 hour'";
    harness.execute(older).await;
    assert_eq!(step_with(&harness, careful).await, 1);
    assert_eq!(harness.payment(order, 1).await.status, "failed");
}

#[tokio::test]
async fn without_cancellation_a_sent_attempt_is_settled_first() {
    let no_cancellation = ProviderLimits {
        can_cancel: false,
        ..LIMITS
    };
    let harness = Harness::create().await;
    let order = harness.open_new().await;
    mount_first_charge_responses(&harness.psp, 1, ResponseTemplate::new(503)).await;
    mount_captures(&harness.psp).await;
    mount_refunds(&harness.psp).await;
    mount_cancellation(&harness.psp, key_cancelled()).await;
    assert_eq!(step_with(&harness, no_cancellation).await, 0);
    reject(&harness, order, 1).await;
    assert_eq!(step_with(&harness, no_cancellation).await, 1, "captured");
    assert_eq!(step_with(&harness, no_cancellation).await, 1, "refunded");
    let expected = ["payment.captured", "payment.refunded"];
    assert_eq!(harness.event_types(order).await, expected);
    assert_eq!(sent(&harness, "/v1/cancellations").await, 0);
}

#[tokio::test]
async fn rejected_attempt_that_is_absent_is_voided() {
    let no_cancellation = ProviderLimits {
        can_cancel: false,
        ..LIMITS
    };
    let harness = Harness::create().await;
    let order = harness.open_new().await;
    mount_charge_response(&harness.psp, ResponseTemplate::new(503)).await;
    mount_look_up(&harness.psp, json!([])).await;
    assert_eq!(step_with(&harness, no_cancellation).await, 0);
    reject(&harness, order, 1).await;
    let forgotten = "update payments set first_called_at = now() - interval '1 day'";
    harness.execute(forgotten).await;
    assert_eq!(step_with(&harness, no_cancellation).await, 1);
    assert_eq!(harness.event_types(order).await, ["payment.voided"]);
    assert_eq!(sent(&harness, "/v1/charges").await, 1);
}

#[tokio::test]
async fn attempt_from_an_old_event_starts_with_a_lookup() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let order = Uuid::new_v4();
    let charged = charge_of(order, "ch_1", &format!("pay:{order}:1"));
    mount_look_up(&harness.psp, json!([charged])).await;
    let mut new = harness.new_attempt("acme", order, 1);
    new.requested_at = Utc::now() - RESEND_MAX - Duration::from_secs(60);
    let mut connection = harness.pool.acquire().await.unwrap();
    attempts::open(&mut connection, &[new], None).await.unwrap();
    assert_eq!(harness.step().await, 1);
    let payment = harness.payment(order, 1).await;
    assert_eq!(payment.charge_id.as_deref(), Some("ch_1"));
    assert_eq!(sent(&harness, "/v1/charges").await, 0, "never sent");
}

#[tokio::test]
async fn replayed_capture_that_was_refunded_manually_never_ships() {
    let harness = Harness::create().await;
    let order = harness.open_new().await;
    mount_first_charge_responses(&harness.psp, 1, ResponseTemplate::new(503)).await;
    let again = |request: &wiremock::Request| replayed(captured(request));
    crate::provider::mount_charges(&harness.psp, again).await;
    let mut charge = charge_of(order, &format!("ch_{order}"), &format!("pay:{order}:1"));
    let mut refund = charge_of(order, "re_1", "by-hand");
    refund["status"] = json!("refunded");
    charge["refunds"] = json!([refund]);
    mount_look_up(&harness.psp, json!([charge])).await;
    assert_eq!(harness.step().await, 0);
    assert_eq!(harness.step().await, 1);
    assert_eq!(harness.event_types(order).await, ["payment.refunded"]);
}

#[tokio::test]
async fn manually_refunded_charge_is_not_refunded_again() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let order = harness.open_new().await;
    assert_eq!(harness.step().await, 1);
    let mut refund = charge_of(order, "re_by_hand", "by-hand");
    refund["status"] = json!("refunded");
    refund["charge_id"] = json!(format!("ch_{order}"));
    mount_refund_look_up(&harness.psp, json!([refund])).await;
    mount_refunds(&harness.psp).await;
    reject(&harness, order, 1).await;
    assert_eq!(harness.step().await, 1);
    let expected = ["payment.captured", "payment.refunded"];
    assert_eq!(harness.event_types(order).await, expected);
    assert_eq!(
        sent(&harness, "/v1/refunds").await,
        0,
        "one refund in the books"
    );
}

#[tokio::test]
async fn refund_that_the_provider_will_not_make_waits_for_an_operator() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    mount_refund_look_up(&harness.psp, json!([])).await;
    let disputed = error(422, "charge_disputed");
    crate::provider::mount_first_refund_responses(&harness.psp, 9, disputed).await;
    let order = harness.open_new().await;
    assert_eq!(harness.step().await, 1);
    reject(&harness, order, 1).await;
    assert_eq!(harness.step().await, 1);
    let failed = "select count(*) from refunds where status = 'failed'
                  and failure_code = 'charge_disputed'";
    assert_eq!(harness.count(failed).await, 1);
    assert_eq!(harness.event_types(order).await, ["payment.captured"]);
    assert_eq!(harness.step().await, 0, "not tried again");
    assert_eq!(sent(&harness, "/v1/refunds").await, 1);
}

#[tokio::test]
async fn response_without_end_is_abandoned() {
    let harness = Harness::create().await;
    let order = harness.open_new().await;
    let long = ResponseTemplate::new(201).set_body_string("x".repeat(300 * 1_024));
    mount_charge_response(&harness.psp, long).await;
    assert_eq!(harness.step().await, 0);
    let payment = harness.payment(order, 1).await;
    assert_eq!(
        payment.last_error.as_deref(),
        Some("the response is too long")
    );
}

#[tokio::test]
async fn order_under_the_id_of_a_direct_charge_is_paid() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let id = Uuid::new_v4();
    let direct = "insert into payments (order_id, attempt, amount, currency, payment_method, lines,
                      correlation_id, principal_id, principal, request_key, content_hash, status,
                      provider_reference)
                  values ($1, 0, 7, 'USD', 'pm', '[]', 'c', 'acme', 'acme', 'k', '', 'pending', $2)";
    sqlx::query(direct)
        .bind(id)
        .bind(format!("direct:{id}"))
        .execute(&harness.pool)
        .await
        .unwrap();
    harness.open(id, 1).await;
    harness.pass_time().await;
    let answers = harness.stepper(LONG).call().await;
    assert_eq!(answers.len(), 2);
    let bodies = request_bodies(&harness.psp, "POST", "/v1/charges").await;
    let mut references: Vec<&str> = bodies
        .iter()
        .filter_map(|it| it["reference"].as_str())
        .collect();
    references.sort_unstable();
    let mut expected = [id.to_string(), format!("direct:{id}")];
    expected.sort_unstable();
    assert_eq!(references, expected, "two names at the provider");
}
