//! Fulfilment will not ship: the attempt ends without money, whatever state it is in.

use payment::consumer::refusals::{self, Refusal};
use serde_json::json;
use uuid::Uuid;
use wiremock::ResponseTemplate;

use crate::provider::{
    answers, asked, burnt, cancellations_say, captures, declined, refunds, was_charged,
};
use crate::world::{LONG, World};

pub(crate) async fn refuse(world: &World, order_id: Uuid, attempt: i32) {
    let refusal = Refusal {
        order_id,
        attempt,
        reason: "cancelled".to_owned(),
        correlation_id: format!("corr-{order_id}"),
        traceparent: None,
    };
    let mut tx = world.pool.begin().await.unwrap();
    refusals::apply(&mut tx, &[refusal]).await.unwrap();
    tx.commit().await.unwrap();
}

async fn step(world: &World) -> usize {
    world.pass_time().await;
    let answers = world.stepper(LONG).call().await;
    world.record(&answers).await.unwrap()
}

async fn types(world: &World, order: Uuid) -> Vec<String> {
    let events = world.events(order).await;
    events.into_iter().map(|(kind, _)| kind).collect()
}

#[tokio::test]
async fn an_attempt_that_nobody_had_in_hand_is_voided_for_good() {
    let world = World::create().await;
    let order = world.open_new().await;
    refuse(&world, order, 1).await;
    assert_eq!(world.payment(order, 1).await.status, "voided");
    assert_eq!(types(&world, order).await, ["payment.voided"]);
    assert_eq!(step(&world).await, 0);
    refuse(&world, order, 1).await;
    assert_eq!(types(&world, order).await, ["payment.voided"]);
    assert!(world.psp.received_requests().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_refusal_that_comes_before_its_attempt_keeps_the_attempt_from_being_charged() {
    let world = World::create().await;
    let order = Uuid::new_v4();
    refuse(&world, order, 1).await;
    world.open(order, 1).await;
    refuse(&world, order, 1).await;
    assert_eq!(step(&world).await, 0);
    assert_eq!(world.payment(order, 1).await.status, "voided");
    assert_eq!(types(&world, order).await, ["payment.voided"]);
}

#[tokio::test]
async fn what_was_captured_is_refunded_once() {
    let world = World::create().await;
    captures(&world.psp).await;
    refunds(&world.psp).await;
    let order = world.open_new().await;
    assert_eq!(step(&world).await, 1);
    refuse(&world, order, 1).await;
    refuse(&world, order, 1).await;
    assert_eq!(step(&world).await, 1);
    assert_eq!(step(&world).await, 0);
    assert_eq!(world.payment(order, 1).await.status, "captured");
    let expected = ["payment.captured", "payment.refunded"];
    assert_eq!(types(&world, order).await, expected);
    let sent = asked(&world.psp, "POST", "/v1/refunds").await;
    let charge = format!("ch_{order}");
    let body = json!({ "charge_id": charge, "amount": 5_000, "reference": order });
    assert_eq!(sent, [body]);
}

#[tokio::test]
async fn a_declined_attempt_took_no_money_and_that_is_said() {
    let world = World::create().await;
    answers(&world.psp, declined("card_declined")).await;
    let order = world.open_new().await;
    assert_eq!(step(&world).await, 1);
    refuse(&world, order, 1).await;
    refuse(&world, order, 1).await;
    assert_eq!(world.payment(order, 1).await.status, "declined");
    let expected = ["payment.declined", "payment.voided"];
    assert_eq!(types(&world, order).await, expected);
}

#[tokio::test]
async fn an_unknown_outcome_is_settled_under_its_own_key_before_it_is_closed() {
    let world = World::create().await;
    answers(&world.psp, ResponseTemplate::new(503)).await;
    cancellations_say(&world.psp, burnt()).await;
    let order = world.open_new().await;
    assert_eq!(step(&world).await, 0);
    refuse(&world, order, 1).await;
    assert_eq!(world.payment(order, 1).await.status, "unknown", "not yet");
    assert!(types(&world, order).await.is_empty());
    assert_eq!(step(&world).await, 1);
    assert_eq!(world.payment(order, 1).await.status, "voided");
    assert_eq!(types(&world, order).await, ["payment.voided"]);
    let cancelled = asked(&world.psp, "POST", "/v1/cancellations").await;
    let body = json!({ "key": format!("pay:{order}:1"), "reference": order });
    assert_eq!(cancelled, [body]);
    assert_eq!(asked(&world.psp, "POST", "/v1/charges").await.len(), 1);
}

#[tokio::test]
async fn an_unknown_outcome_that_was_a_charge_is_recorded_and_refunded() {
    let world = World::create().await;
    answers(&world.psp, ResponseTemplate::new(503)).await;
    cancellations_say(&world.psp, was_charged("ch_1")).await;
    refunds(&world.psp).await;
    let order = world.open_new().await;
    assert_eq!(step(&world).await, 0);
    refuse(&world, order, 1).await;
    assert_eq!(step(&world).await, 1, "captured");
    assert_eq!(step(&world).await, 1, "refunded");
    let expected = ["payment.captured", "payment.refunded"];
    assert_eq!(types(&world, order).await, expected);
}

#[tokio::test]
async fn a_charge_that_is_out_while_it_is_refused_is_refunded_with_its_answer() {
    let world = World::create().await;
    captures(&world.psp).await;
    refunds(&world.psp).await;
    let order = world.open_new().await;
    let in_hand = world.stepper(LONG).call().await;
    refuse(&world, order, 1).await;
    assert_eq!(world.stepper(LONG).lease().await, 0, "the lease stands");
    assert_eq!(world.record(&in_hand).await.unwrap(), 1);
    assert_eq!(step(&world).await, 1);
    let expected = ["payment.captured", "payment.refunded"];
    assert_eq!(types(&world, order).await, expected);
}

#[tokio::test]
async fn a_zombie_that_wakes_up_after_the_cancellation_finds_nothing_left_to_do() {
    let world = World::create().await;
    captures(&world.psp).await;
    cancellations_say(&world.psp, burnt()).await;
    let order = world.open_new().await;
    let zombie = world.stepper(LONG).call().await;
    refuse(&world, order, 1).await;
    assert_eq!(step(&world).await, 1, "its lease ran out, its key is burnt");
    assert_eq!(world.record(&zombie).await.unwrap(), 0);
    assert_eq!(world.payment(order, 1).await.status, "voided");
    assert_eq!(types(&world, order).await, ["payment.voided"]);
}

#[tokio::test]
async fn an_attempt_that_was_sent_again_after_an_absence_counts_as_in_hand() {
    let world = World::create().await;
    answers(&world.psp, ResponseTemplate::new(503)).await;
    cancellations_say(&world.psp, burnt()).await;
    let order = world.open_new().await;
    assert_eq!(step(&world).await, 0);
    // What a look-up that found nothing leaves behind.
    world
        .execute("update payments set first_called_at = null")
        .await;
    refuse(&world, order, 1).await;
    assert_eq!(world.payment(order, 1).await.status, "unknown");
}
