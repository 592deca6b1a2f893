//! A reference is charged once, under any number of keys and without a time limit.

use futures_util::future::join_all;

use super::{NO_WAIT, charge_due, stored};
use crate::api_client::charge_with;
use crate::api_server::ApiServer;
use crate::harness::Harness;
use crate::provider::{call_count, declined, mount_captures, mount_charge_response};
use crate::response::expect_in_flight;

#[tokio::test]
async fn same_content_under_a_new_key_returns_the_first_payment() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let body = charge_with("reference", "invoice-1");
    let first = server.client.post("k-1", &body).await.payment_id();
    let open = server.client.post("k-2", &body).await;
    expect_in_flight(&open, "payment_in_flight", first);
    assert_eq!(
        stored(&harness).await,
        [1, 1, 0, 0],
        "the new key stays free"
    );

    assert_eq!(charge_due(&harness).await, 1);
    let settled = server.client.post("k-2", &body).await;
    assert!(!settled.expect(200).is_replay());
    assert_eq!(settled.payment_id(), first);
    assert_eq!(settled.json()["status"], "captured");
    assert_eq!(settled.json()["charge_id"], format!("ch_direct:{first}"));
    let url = format!("/payments/{first}");
    assert_eq!(settled.header("location"), Some(&*url));
    let replay = server.client.post("k-2", &body).await;
    assert!(replay.expect(200).is_replay());
    assert_eq!(replay.body, settled.body);
    assert_eq!(stored(&harness).await, [2, 1, 2, 0]);
    assert_eq!(call_count(&harness.psp).await, 1);
}

#[tokio::test]
async fn declined_reference_stays_declined() {
    let harness = Harness::create().await;
    mount_charge_response(&harness.psp, declined("card_declined")).await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let body = charge_with("reference", "invoice-1");
    let first = server.client.post("k-1", &body).await.payment_id();
    charge_due(&harness).await;
    let again = server.client.post("k-2", &body).await;
    assert_eq!(again.expect(200).payment_id(), first);
    assert_eq!(again.json()["status"], "declined");
    assert_eq!(again.json()["decline_code"], "card_declined");
    assert_eq!(stored(&harness).await, [2, 1, 2, 0]);
}

#[tokio::test]
async fn conflict_over_a_reference_is_stored_and_replayed() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let body = charge_with("reference", "invoice-1");
    let first = server.client.post("k-1", &body).await.payment_id();
    let mut other = body.clone();
    other["amount"] = 5_001.into();
    let conflict = server.client.post("k-2", &other).await;
    let problem = conflict.expect_problem(409, "payment_exists");
    assert_eq!(problem["payment_id"], first.to_string());
    charge_due(&harness).await;
    let replay = server.client.post("k-2", &other).await;
    replay.expect_problem(409, "payment_exists");
    assert!(replay.is_replay());
    assert_eq!(replay.body, conflict.body);
    assert_eq!(stored(&harness).await, [2, 1, 2, 0]);
}

#[tokio::test]
async fn reference_protects_after_its_key_has_expired() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let body = charge_with("reference", "invoice-1");
    let first = server.client.post("k-1", &body).await.payment_id();
    charge_due(&harness).await;
    harness
        .execute("update idempotency_keys set expires_at = now() - interval '1 second'")
        .await;
    let again = server.client.post("k-1", &body).await;
    assert_eq!(again.expect(200).payment_id(), first);
    assert_eq!(charge_due(&harness).await, 0);
    assert_eq!(call_count(&harness.psp).await, 1);
}

#[tokio::test]
async fn ten_concurrent_keys_with_one_reference_are_one_payment() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let body = charge_with("reference", "invoice-1");
    let keys: Vec<String> = (0..10).map(|n| format!("k-{n}")).collect();
    let responses = join_all(keys.iter().map(|key| server.client.post(key, &body))).await;
    let accepted = responses.iter().filter(|response| response.status == 202);
    assert_eq!(accepted.count(), 1);
    let in_flight = responses.iter().filter(|response| response.status == 409);
    assert_eq!(in_flight.count(), 9, "{responses:?}");
    assert_eq!(stored(&harness).await, [1, 1, 0, 0]);
    assert_eq!(charge_due(&harness).await, 1);
    let settled = join_all(keys.iter().map(|key| server.client.post(key, &body))).await;
    let first = settled[0].payment_id();
    assert!(
        settled
            .iter()
            .all(|response| response.payment_id() == first)
    );
    assert_eq!(call_count(&harness.psp).await, 1);
}
