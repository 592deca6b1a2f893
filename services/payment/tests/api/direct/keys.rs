//! One key, one charge: claimed before the provider hears of it, answered by the record.

use serde_json::json;

use super::{NO_WAIT, charge_what_is_due, stored};
use crate::application::start;
use crate::front::{ACME, Front, GLOBEX, charge, charge_with};
use crate::harness::{Harness, LONG, eventually};
use crate::provider::{answers, call_count, calls, captures, declined, expected_call};

const EXPIRE: &str = "update idempotency_keys set created_at = created_at - interval '1 year',
                      expires_at = expires_at - interval '1 year'";

#[tokio::test]
async fn key_and_attempt_are_one_commit_before_the_provider_is_called() {
    let harness = Harness::create().await;
    let front = Front::open(&harness, NO_WAIT).await;
    let accepted = front.caller.post("k-1", &charge()).await;
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
async fn whichever_insert_fails_nothing_is_stored_and_the_key_stays_free() {
    const REFUSE: &str = "create function refuse() returns trigger language plpgsql as
                          $$ begin raise 'the disk is on fire'; end $$";
    for trigger in [
        "create trigger refuse before insert on payments for each row execute function refuse()",
        "create trigger refuse before insert on idempotency_keys for each row
         execute function refuse()",
    ] {
        let harness = Harness::create().await;
        let front = Front::open(&harness, NO_WAIT).await;
        harness.execute(REFUSE).await;
        harness.execute(trigger).await;
        let failed = front.caller.post("k-1", &charge()).await;
        assert_eq!(failed.expect(500).json()["code"], "internal_error");
        assert_eq!(stored(&harness).await, [0, 0, 0, 0], "{trigger}");
        harness.execute("drop function refuse() cascade").await;
        front.caller.post("k-1", &charge()).await.expect(202);
    }
}

#[tokio::test]
async fn the_recorded_outcome_is_the_key_s_answer_byte_for_byte() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let front = Front::open(&harness, NO_WAIT).await;
    let body = charge_with("reference", "invoice-4711");
    let id = front.caller.post("k-1", &body).await.payment_id();
    assert_eq!(charge_what_is_due(&harness).await, 1);
    assert_eq!(
        stored(&harness).await,
        [1, 1, 1, 0],
        "and announces nothing"
    );

    let replay = front.caller.post("k-1", &body).await;
    assert!(replay.expect(201).is_replay());
    assert_eq!(replay.header("content-type"), Some("application/json"));
    let url = format!("/payments/{id}");
    assert_eq!(replay.header("location"), Some(&*url));
    let expected = json!({
        "payment_id": id, "status": "captured", "amount": 5_000, "currency": "USD",
        "payment_method": "pm_card_ok", "reference": "invoice-4711",
        "charge_id": format!("ch_{id}"),
    });
    assert_eq!(replay.json(), expected);
    let again = front.caller.post("\"k-1\"", &body).await;
    assert_eq!(again.body, replay.body);
    assert_eq!(calls(&harness.psp).await, [expected_call(id, 0)]);
}

#[tokio::test]
async fn a_decline_is_a_result_and_replays() {
    let harness = Harness::create().await;
    answers(&harness.psp, declined("insufficient_funds")).await;
    let front = Front::open(&harness, NO_WAIT).await;
    let first = front.caller.post("k-1", &charge()).await;
    let id = first.payment_id();
    assert_eq!(charge_what_is_due(&harness).await, 1);

    let replay = front.caller.post("k-1", &charge()).await;
    let problem = replay.expect_problem(402, "payment_declined");
    assert!(replay.is_replay());
    assert_eq!(problem["decline_code"], "insufficient_funds");
    assert_eq!(problem["payment_id"], id.to_string());
    let asked_by = first.header("x-correlation-id").unwrap();
    assert_eq!(problem["correlation_id"], asked_by);
    let again = front.caller.post("k-1", &charge()).await;
    assert_eq!(again.body, replay.body);
    let shown = front.caller.payment(id).await;
    assert_eq!(shown["status"], "declined");
    assert_eq!(shown["decline_code"], "insufficient_funds");
    assert_eq!(call_count(&harness.psp).await, 1);
    assert_eq!(stored(&harness).await, [1, 1, 1, 0]);
}

#[tokio::test]
async fn another_body_under_the_key_is_refused_whether_it_is_open_or_settled() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let front = Front::open(&harness, NO_WAIT).await;
    front.caller.post("k-1", &charge()).await.expect(202);
    for _ in 0..2 {
        let other = front
            .caller
            .post("k-1", &charge_with("amount", 5_001))
            .await;
        other.expect_problem(422, "idempotency_key_reused");
        charge_what_is_due(&harness).await;
    }
    assert_eq!(stored(&harness).await, [1, 1, 1, 0]);
    assert_eq!(call_count(&harness.psp).await, 1);
}

#[tokio::test]
async fn a_key_in_flight_says_so_and_names_its_payment_however_long_it_takes() {
    let harness = Harness::create().await;
    let front = Front::open(&harness, NO_WAIT).await;
    let id = front.caller.post("k-1", &charge()).await.payment_id();
    let again = front.caller.post("k-1", &charge()).await;
    again.expect_in_flight("idempotency_key_in_flight", id);
    // The provider answers 404 to everything: unknown, and still in flight.
    assert_eq!(charge_what_is_due(&harness).await, 0);
    harness.execute(EXPIRE).await;
    let again = front.caller.post("k-1", &charge()).await;
    again.expect_in_flight("idempotency_key_in_flight", id);
    assert_eq!(stored(&harness).await, [1, 1, 0, 0]);

    captures(&harness.psp).await;
    harness.pass_time().await;
    assert_eq!(charge_what_is_due(&harness).await, 1);
    // Its window counts from its answer.
    let replay = front.caller.post("k-1", &charge()).await;
    assert!(replay.expect(201).is_replay());
    assert_eq!(replay.payment_id(), id);
}

#[tokio::test]
async fn past_the_window_a_key_is_free_again() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let front = Front::open(&harness, NO_WAIT).await;
    let first = front.caller.post("k-1", &charge()).await.payment_id();
    charge_what_is_due(&harness).await;
    harness.execute(EXPIRE).await;
    let other = charge_with("amount", 5_001);
    let second = front.caller.post("k-1", &other).await;
    assert_ne!(second.expect(202).payment_id(), first);
    assert_eq!(stored(&harness).await, [1, 2, 0, 0]);
}

#[tokio::test]
async fn the_service_reaps_keys_that_have_expired_and_none_in_flight() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let front = Front::open(&harness, NO_WAIT).await;
    front.caller.post("k-settled", &charge()).await.expect(202);
    assert_eq!(charge_what_is_due(&harness).await, 1);
    front.caller.post("k-open", &charge()).await.expect(202);
    // In hand, for longer than this test takes.
    let in_hand = harness.stepper(LONG).call().await;
    harness.execute(EXPIRE).await;
    let running = start(&harness, &["--reaper-interval-ms", "10"]).await;
    let keys = "select count(*) from idempotency_keys";
    eventually("a key is gone", async || harness.count(keys).await == 1).await;
    assert_eq!(harness.record(&in_hand).await.unwrap(), 1);
    let replay = front.caller.post("k-open", &charge()).await;
    assert!(replay.expect(201).is_replay());
    running.shutdown.cancel();
}

#[tokio::test]
async fn a_key_with_quotes_of_its_own_is_completed_as_that_key() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let front = Front::open(&harness, NO_WAIT).await;
    // The keys `"a"` and `"b`, as structured-field strings.
    for key in [r#""\"a\"""#, r#""\"b""#] {
        let id = front.caller.post(key, &charge()).await.payment_id();
        assert_eq!(charge_what_is_due(&harness).await, 1, "{key}");
        let replay = front.caller.post(key, &charge()).await;
        assert_eq!(replay.expect(201).payment_id(), id);
    }
}

#[tokio::test]
async fn an_answer_in_a_format_of_the_future_is_derived_and_nothing_is_charged_again() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let front = Front::open(&harness, NO_WAIT).await;
    let id = front.caller.post("k-1", &charge()).await.payment_id();
    charge_what_is_due(&harness).await;
    let readable = front.caller.post("k-1", &charge()).await;
    harness
        .execute("update idempotency_keys set response_version = 99")
        .await;
    let derived = front.caller.post("k-1", &charge()).await;
    assert!(derived.expect(201).is_replay());
    assert_eq!(derived.payment_id(), id);
    assert_eq!(derived.body, readable.body);
    assert_eq!(stored(&harness).await, [1, 1, 1, 0]);
}

#[tokio::test]
async fn two_tenants_share_neither_keys_nor_references_nor_payments() {
    let harness = Harness::create().await;
    let front = Front::open(&harness, NO_WAIT).await;
    let body = charge_with("reference", "invoice-1");
    let acme = front.caller.post_as(ACME, "k-1", &body).await;
    let globex = front.caller.post_as(GLOBEX, "k-1", &body).await;
    assert_ne!(
        acme.expect(202).payment_id(),
        globex.expect(202).payment_id()
    );
    assert_eq!(stored(&harness).await, [2, 2, 0, 0]);
    front.caller.payment(acme.payment_id()).await;
    let foreign = format!("/payments/{}", globex.payment_id());
    let foreign = front.caller.get(&foreign).await;
    foreign.expect_problem(404, "payment_not_found");
}
