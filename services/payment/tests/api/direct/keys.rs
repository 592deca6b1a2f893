//! One key, one charge. The key is claimed before the provider is called, and the recorder completes it.

use serde_json::json;

use super::{NO_WAIT, charge_due, stored};
use crate::api_client::{ACME, GLOBEX, charge, charge_with};
use crate::api_server::ApiServer;
use crate::application::start;
use crate::harness::{Harness, LONG, eventually};
use crate::provider::{
    call_count, calls, declined, error, expected_call, mount_captures, mount_charge_response,
};
use crate::response::expect_in_flight;

const EXPIRE: &str = "update idempotency_keys set created_at = created_at - interval '1 year',
                      expires_at = expires_at - interval '1 year'";

#[tokio::test]
async fn key_and_attempt_commit_before_the_provider_is_called() {
    let harness = Harness::create().await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let accepted = server.client.post("k-1", &charge()).await;
    let id = accepted.expect(202).payment_id();
    assert_eq!(call_count(&harness.psp).await, 0);
    assert_eq!(stored(&harness).await, [1, 1, 0, 0]);
    let one_commit = "select count(*) from payments, idempotency_keys
                      where payments.xmin::text = idempotency_keys.xmin::text
                        and order_id = resource_id and request_key = key";
    assert_eq!(harness.count(one_commit).await, 1);
    let payment = harness.payment(id, 0).await;
    assert_eq!((&*payment.status, payment.tries), ("pending", 0));
}

#[tokio::test]
async fn failed_insert_stores_nothing_and_leaves_the_key_free() {
    const FAIL: &str = "create function fail() returns trigger language plpgsql as
                        $$ begin raise 'the disk is on fire'; end $$";
    for trigger in [
        "create trigger fail before insert on payments for each row execute function fail()",
        "create trigger fail before insert on idempotency_keys for each row
         execute function fail()",
    ] {
        let harness = Harness::create().await;
        let server = ApiServer::start(&harness, NO_WAIT).await;
        harness.execute(FAIL).await;
        harness.execute(trigger).await;
        let failed = server.client.post("k-1", &charge()).await;
        assert_eq!(failed.expect(500).json()["code"], "internal_error");
        assert_eq!(stored(&harness).await, [0, 0, 0, 0], "{trigger}");
        harness.execute("drop function fail() cascade").await;
        server.client.post("k-1", &charge()).await.expect(202);
    }
}

#[tokio::test]
async fn recorded_outcome_is_replayed_byte_for_byte() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let body = charge_with("reference", "invoice-4711");
    let id = server.client.post("k-1", &body).await.payment_id();
    assert_eq!(charge_due(&harness).await, 1);
    assert_eq!(stored(&harness).await, [1, 1, 1, 0], "no event");

    let replay = server.client.post("k-1", &body).await;
    assert!(replay.expect(201).is_replay());
    assert_eq!(replay.header("content-type"), Some("application/json"));
    let url = format!("/payments/{id}");
    assert_eq!(replay.header("location"), Some(&*url));
    let expected = json!({
        "payment_id": id, "status": "captured", "amount": 5_000, "currency": "USD",
        "payment_method": "pm_card_ok", "reference": "invoice-4711",
        "charge_id": format!("ch_direct:{id}"),
    });
    assert_eq!(replay.json(), expected);
    let again = server.client.post("\"k-1\"", &body).await;
    assert_eq!(again.body, replay.body);
    assert_eq!(calls(&harness.psp).await, [expected_call(id, 0)]);
}

#[tokio::test]
async fn definite_error_is_stored_and_replayed() {
    let harness = Harness::create().await;
    mount_charge_response(&harness.psp, error(422, "amount_too_small")).await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let id = server.client.post("k-1", &charge()).await.payment_id();
    assert_eq!(charge_due(&harness).await, 1);
    let replay = server.client.post("k-1", &charge()).await;
    let problem = replay.expect_problem(402, "payment_failed");
    assert_eq!(problem["failure_code"], "amount_too_small");
    assert!(replay.is_replay());
    let shown = server.client.payment(id).await;
    assert_eq!(shown["status"], "failed");
    assert_eq!(shown["failure_code"], "amount_too_small");
}

#[tokio::test]
async fn decline_is_stored_and_replayed() {
    let harness = Harness::create().await;
    mount_charge_response(&harness.psp, declined("insufficient_funds")).await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let first = server.client.post("k-1", &charge()).await;
    let id = first.payment_id();
    assert_eq!(charge_due(&harness).await, 1);

    let replay = server.client.post("k-1", &charge()).await;
    let problem = replay.expect_problem(402, "payment_declined");
    assert!(replay.is_replay());
    assert_eq!(problem["decline_code"], "insufficient_funds");
    assert_eq!(problem["payment_id"], id.to_string());
    let first_request = first.header("x-correlation-id").unwrap();
    assert_eq!(problem["correlation_id"], first_request);
    let again = server.client.post("k-1", &charge()).await;
    assert_eq!(again.body, replay.body);
    let shown = server.client.payment(id).await;
    assert_eq!(shown["status"], "declined");
    assert_eq!(shown["decline_code"], "insufficient_funds");
    assert_eq!(call_count(&harness.psp).await, 1);
    assert_eq!(stored(&harness).await, [1, 1, 1, 0]);
}

#[tokio::test]
async fn other_body_under_an_open_or_settled_key_is_an_error() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    server.client.post("k-1", &charge()).await.expect(202);
    for _ in 0..2 {
        let other = server
            .client
            .post("k-1", &charge_with("amount", 5_001))
            .await;
        other.expect_problem(422, "idempotency_key_reused");
        charge_due(&harness).await;
    }
    assert_eq!(stored(&harness).await, [1, 1, 1, 0]);
    assert_eq!(call_count(&harness.psp).await, 1);
}

#[tokio::test]
async fn key_in_flight_names_its_payment_until_it_is_settled() {
    let harness = Harness::create().await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let id = server.client.post("k-1", &charge()).await.payment_id();
    let again = server.client.post("k-1", &charge()).await;
    expect_in_flight(&again, "idempotency_key_in_flight", id);
    // The provider responds 404 to everything: the outcome is unknown, and the key still in flight.
    assert_eq!(charge_due(&harness).await, 0);
    harness.execute(EXPIRE).await;
    let again = server.client.post("k-1", &charge()).await;
    expect_in_flight(&again, "idempotency_key_in_flight", id);
    assert_eq!(stored(&harness).await, [1, 1, 0, 0]);

    mount_captures(&harness.psp).await;
    harness.pass_time().await;
    assert_eq!(charge_due(&harness).await, 1);
    // The window of the key starts with its response.
    let replay = server.client.post("k-1", &charge()).await;
    assert!(replay.expect(201).is_replay());
    assert_eq!(replay.payment_id(), id);
}

#[tokio::test]
async fn key_is_free_again_after_its_window() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let first = server.client.post("k-1", &charge()).await.payment_id();
    charge_due(&harness).await;
    harness.execute(EXPIRE).await;
    let other = charge_with("amount", 5_001);
    let second = server.client.post("k-1", &other).await;
    assert_ne!(second.expect(202).payment_id(), first);
    assert_eq!(stored(&harness).await, [1, 2, 0, 0]);
}

#[tokio::test]
async fn reaper_deletes_expired_keys_and_none_in_flight() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    server.client.post("k-settled", &charge()).await.expect(202);
    assert_eq!(charge_due(&harness).await, 1);
    server.client.post("k-open", &charge()).await.expect(202);
    // Leased for longer than this test takes.
    let in_flight = harness.stepper(LONG).call().await;
    harness.execute(EXPIRE).await;
    let running = start(&harness, &["--reaper-interval-ms", "10"]).await;
    let keys = "select count(*) from idempotency_keys";
    eventually("one key is deleted", async || {
        harness.count(keys).await == 1
    })
    .await;
    assert_eq!(harness.record(&in_flight).await.unwrap(), 1);
    let replay = server.client.post("k-open", &charge()).await;
    assert!(replay.expect(201).is_replay());
    running.shutdown.cancel();
}

#[tokio::test]
async fn key_that_contains_quotes_is_completed() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    // The keys `"a"` and `"b`, as structured-field strings.
    for key in [r#""\"a\"""#, r#""\"b""#] {
        let id = server.client.post(key, &charge()).await.payment_id();
        assert_eq!(charge_due(&harness).await, 1, "{key}");
        let replay = server.client.post(key, &charge()).await;
        assert_eq!(replay.expect(201).payment_id(), id);
    }
}

#[tokio::test]
async fn unreadable_stored_response_is_derived_without_a_charge() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let id = server.client.post("k-1", &charge()).await.payment_id();
    charge_due(&harness).await;
    let readable = server.client.post("k-1", &charge()).await;
    harness
        .execute("update idempotency_keys set response_version = 99")
        .await;
    let derived = server.client.post("k-1", &charge()).await;
    assert!(derived.expect(201).is_replay());
    assert_eq!(derived.payment_id(), id);
    assert_eq!(derived.body, readable.body);
    assert_eq!(stored(&harness).await, [1, 1, 1, 0]);
}

#[tokio::test]
async fn principals_share_no_keys_references_or_payments() {
    let harness = Harness::create().await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let body = charge_with("reference", "invoice-1");
    let acme = server.client.post_as(ACME, "k-1", &body).await;
    let globex = server.client.post_as(GLOBEX, "k-1", &body).await;
    assert_ne!(
        acme.expect(202).payment_id(),
        globex.expect(202).payment_id()
    );
    assert_eq!(stored(&harness).await, [2, 2, 0, 0]);
    server.client.payment(acme.payment_id()).await;
    let foreign = format!("/payments/{}", globex.payment_id());
    let foreign = server.client.get(&foreign).await;
    foreign.expect_problem(404, "payment_not_found");
}
