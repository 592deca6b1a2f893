//! A reference is charged once for good, whatever the keys.

use futures_util::future::join_all;

use super::{NO_WAIT, charge_what_is_due, stored};
use crate::front::{Front, charge_with};
use crate::harness::Harness;
use crate::provider::{answers, call_count, captures, declined};

#[tokio::test]
async fn the_same_content_under_a_new_key_is_answered_with_the_first_payment() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let front = Front::open(&harness, NO_WAIT).await;
    let body = charge_with("reference", "invoice-1");
    let first = front.caller.post("k-1", &body).await.payment_id();
    let open = front.caller.post("k-2", &body).await;
    open.expect_in_flight("payment_in_flight", first);
    assert_eq!(
        stored(&harness).await,
        [1, 1, 0, 0],
        "the new key stays free"
    );

    assert_eq!(charge_what_is_due(&harness).await, 1);
    let settled = front.caller.post("k-2", &body).await;
    assert!(!settled.expect(200).is_replay());
    assert_eq!(settled.payment_id(), first);
    assert_eq!(settled.json()["status"], "captured");
    assert_eq!(settled.json()["charge_id"], format!("ch_{first}"));
    let url = format!("/payments/{first}");
    assert_eq!(settled.header("location"), Some(&*url));
    let replay = front.caller.post("k-2", &body).await;
    assert!(replay.expect(200).is_replay());
    assert_eq!(replay.body, settled.body);
    assert_eq!(stored(&harness).await, [2, 1, 2, 0]);
    assert_eq!(call_count(&harness.psp).await, 1);
}

#[tokio::test]
async fn a_reference_that_was_declined_stays_declined() {
    let harness = Harness::create().await;
    answers(&harness.psp, declined("card_declined")).await;
    let front = Front::open(&harness, NO_WAIT).await;
    let body = charge_with("reference", "invoice-1");
    let first = front.caller.post("k-1", &body).await.payment_id();
    charge_what_is_due(&harness).await;
    let again = front.caller.post("k-2", &body).await;
    assert_eq!(again.expect(200).payment_id(), first);
    assert_eq!(again.json()["status"], "declined");
    assert_eq!(again.json()["decline_code"], "card_declined");
    assert_eq!(stored(&harness).await, [2, 1, 2, 0]);
}

#[tokio::test]
async fn other_content_under_a_known_reference_is_a_conflict_that_replays() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let front = Front::open(&harness, NO_WAIT).await;
    let body = charge_with("reference", "invoice-1");
    let first = front.caller.post("k-1", &body).await.payment_id();
    let mut other = body.clone();
    other["amount"] = 5_001.into();
    let refused = front.caller.post("k-2", &other).await;
    let problem = refused.expect_problem(409, "payment_exists");
    assert_eq!(problem["payment_id"], first.to_string());
    charge_what_is_due(&harness).await;
    let replay = front.caller.post("k-2", &other).await;
    replay.expect_problem(409, "payment_exists");
    assert!(replay.is_replay());
    assert_eq!(replay.body, refused.body);
    assert_eq!(stored(&harness).await, [2, 1, 2, 0]);
}

#[tokio::test]
async fn it_protects_when_the_window_of_its_key_has_closed() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let front = Front::open(&harness, NO_WAIT).await;
    let body = charge_with("reference", "invoice-1");
    let first = front.caller.post("k-1", &body).await.payment_id();
    charge_what_is_due(&harness).await;
    harness
        .execute("update idempotency_keys set expires_at = now() - interval '1 second'")
        .await;
    let again = front.caller.post("k-1", &body).await;
    assert_eq!(again.expect(200).payment_id(), first);
    assert_eq!(charge_what_is_due(&harness).await, 0);
    assert_eq!(call_count(&harness.psp).await, 1);
}

#[tokio::test]
async fn ten_keys_at_once_with_one_reference_are_one_payment() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let front = Front::open(&harness, NO_WAIT).await;
    let body = charge_with("reference", "invoice-1");
    let keys: Vec<String> = (0..10).map(|n| format!("k-{n}")).collect();
    let clicks = join_all(keys.iter().map(|key| front.caller.post(key, &body))).await;
    let accepted = clicks.iter().filter(|answer| answer.status == 202);
    assert_eq!(accepted.count(), 1);
    let in_flight = clicks.iter().filter(|answer| answer.status == 409);
    assert_eq!(in_flight.count(), 9, "{clicks:?}");
    assert_eq!(stored(&harness).await, [1, 1, 0, 0]);
    assert_eq!(charge_what_is_due(&harness).await, 1);
    let settled = join_all(keys.iter().map(|key| front.caller.post(key, &body))).await;
    let first = settled[0].payment_id();
    assert!(settled.iter().all(|answer| answer.payment_id() == first));
    assert_eq!(call_count(&harness.psp).await, 1);
}
