//! When the provider may have forgotten a key, it is asked and not told.

use std::time::Duration;

use serde_json::json;
use uuid::Uuid;
use wiremock::ResponseTemplate;

use crate::provider::{asked, captures, expected_call, first_answers, look_ups_find};
use crate::stepper::RESEND_MAX;
use crate::world::{LONG, World};

const NO_ANSWER: u16 = 503;

/// An attempt that was sent once, in vain, just inside the provider's window.
async fn sent_in_vain(world: &World) -> Uuid {
    first_answers(&world.psp, 1, ResponseTemplate::new(NO_ANSWER)).await;
    captures(&world.psp).await;
    let order = world.open_new().await;
    let unknown = world.stepper(LONG).call().await;
    world.record(&unknown).await.unwrap();
    order
}

async fn age_first_call(world: &World, age: Duration) {
    let sql = "update payments set first_called_at = now() - make_interval(secs => $1)";
    let aged = sqlx::query(sql)
        .bind(age.as_secs_f64())
        .execute(&world.pool)
        .await;
    assert_eq!(aged.unwrap().rows_affected(), 1);
}

async fn step(world: &World) -> usize {
    world.pass_time().await;
    let answers = world.stepper(LONG).call().await;
    world.record(&answers).await.unwrap()
}

async fn charges_sent(world: &World) -> usize {
    asked(&world.psp, "POST", "/v1/charges").await.len()
}

#[tokio::test]
async fn shortly_before_the_window_closes_resending_stops_and_the_charge_is_found() {
    let world = World::create().await;
    let order = sent_in_vain(&world).await;
    let key = expected_call(order, 1).0;
    let charge = json!([{ "id": "ch_found", "status": "captured", "idempotency_key": key }]);
    look_ups_find(&world.psp, charge).await;
    age_first_call(&world, RESEND_MAX).await;
    assert_eq!(step(&world).await, 1);
    let payment = world.payment(order, 1).await;
    assert_eq!(payment.status, "captured");
    assert_eq!(payment.charge_id.as_deref(), Some("ch_found"));
    assert_eq!(world.events(order).await.len(), 1);
    assert_eq!(charges_sent(&world).await, 1, "never past the window");
}

#[tokio::test]
async fn inside_the_window_the_same_key_is_sent_again() {
    let world = World::create().await;
    let order = sent_in_vain(&world).await;
    age_first_call(&world, RESEND_MAX - Duration::from_secs(60)).await;
    assert_eq!(step(&world).await, 1);
    assert_eq!(world.payment(order, 1).await.status, "captured");
    assert_eq!(charges_sent(&world).await, 2);
}

#[tokio::test]
async fn the_provider_s_word_that_there_is_no_charge_allows_the_same_attempt_once_more() {
    let world = World::create().await;
    let order = sent_in_vain(&world).await;
    look_ups_find(&world.psp, json!([])).await;
    age_first_call(&world, RESEND_MAX).await;
    assert_eq!(step(&world).await, 0);
    let between = world.payment(order, 1).await;
    assert_eq!(between.status, "unknown");
    let reason = "the provider has no such charge";
    assert_eq!(between.last_error.as_deref(), Some(reason));
    assert_eq!(charges_sent(&world).await, 1);

    assert_eq!(step(&world).await, 1);
    assert_eq!(world.payment(order, 1).await.status, "captured");
    let sent = asked(&world.psp, "POST", "/v1/charges").await;
    assert_eq!(sent, vec![expected_call(order, 1).1; 2]);
}

#[tokio::test]
async fn a_charge_under_another_key_of_the_order_is_no_permission_to_charge_again() {
    let world = World::create().await;
    let order = sent_in_vain(&world).await;
    let other = json!([{ "id": "ch_2", "status": "captured", "idempotency_key": "by-hand" }]);
    look_ups_find(&world.psp, other).await;
    age_first_call(&world, RESEND_MAX).await;
    for _ in 0..3 {
        assert_eq!(step(&world).await, 0);
    }
    let payment = world.payment(order, 1).await;
    assert_eq!(payment.status, "unknown");
    let reason = "the order is charged under another key";
    assert_eq!(payment.last_error.as_deref(), Some(reason));
    assert_eq!(charges_sent(&world).await, 1);
}

#[tokio::test]
async fn a_look_up_without_an_answer_is_asked_again_and_nothing_is_sent() {
    let world = World::create().await;
    let order = sent_in_vain(&world).await;
    age_first_call(&world, RESEND_MAX).await;
    // Nothing is mounted for look-ups: 404 is no word on a charge.
    for _ in 0..3 {
        assert_eq!(step(&world).await, 0);
    }
    let payment = world.payment(order, 1).await;
    assert_eq!((&*payment.status, payment.tries), ("unknown", 4));
    assert_eq!(payment.last_error.as_deref(), Some("status 404"));
    assert_eq!(charges_sent(&world).await, 1);
}
