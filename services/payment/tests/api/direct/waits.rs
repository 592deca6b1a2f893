//! The first caller waits for the outcome, within limits and holding nothing.

use std::time::Duration;

use futures_util::future::join_all;
use leases::Record as _;
use uuid::Uuid;

use super::{NO_WAIT, charge_what_is_due, stored};
use crate::application::start;
use crate::front::{Caller, Front, charge, charge_with};
use crate::harness::{Harness, LONG, eventually};
use crate::provider::{call_count, calls, captures, captures_slowly, expected_call};
use crate::reconciling::{ALL, books_hold, reconciler};

const OPEN: &str = "select count(*) from payments";

#[tokio::test]
async fn the_first_caller_is_told_the_outcome() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let running = start(&harness, &[]).await;
    let caller = Caller::of(running.port);
    let captured = caller.post("k-1", &charge()).await;
    assert!(!captured.expect(201).is_replay());
    let id = captured.payment_id();
    assert_eq!(captured.json()["charge_id"], format!("ch_{id}"));
    let replay = caller.post("k-1", &charge()).await;
    assert!(replay.expect(201).is_replay());
    assert_eq!(replay.body, captured.body);
    assert_eq!(stored(&harness).await, [1, 1, 1, 0]);
    assert_eq!(calls(&harness.psp).await, [expected_call(id, 0)]);
    running.shutdown.cancel();
}

#[tokio::test]
async fn twenty_at_once_are_one_charge() {
    let harness = Harness::create().await;
    captures_slowly(&harness.psp, Duration::from_millis(300)).await;
    let running = start(&harness, &[]).await;
    let caller = Caller::of(running.port);
    let body = charge();
    let answers = join_all((0..20).map(|_| caller.post("k-1", &body))).await;
    let firsts = answers
        .iter()
        .filter(|answer| answer.status == 201 && !answer.is_replay());
    assert_eq!(firsts.count(), 1);
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        answer.expect_problem(409, "idempotency_key_in_flight");
    }
    assert!(caller.post("k-1", &body).await.expect(201).is_replay());
    assert_eq!(call_count(&harness.psp).await, 1);
    assert_eq!(stored(&harness).await, [1, 1, 1, 0]);
    running.shutdown.cancel();
}

#[tokio::test]
async fn past_the_wait_it_is_202_and_a_retry_replays_the_outcome_once_it_is_known() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let front = Front::open(&harness, Duration::from_millis(50)).await;
    let accepted = front.caller.post("k-1", &charge()).await;
    let id = accepted.expect(202).payment_id();
    assert_eq!(accepted.json()["status"], "pending");
    assert_eq!(accepted.header("retry-after"), Some("1"));
    let url = format!("/payments/{id}");
    assert_eq!(accepted.header("location"), Some(&*url));
    let early = front.caller.post("k-1", &charge()).await;
    early.expect_in_flight("idempotency_key_in_flight", id);

    assert_eq!(charge_what_is_due(&harness).await, 1);
    let replay = front.caller.post("k-1", &charge()).await;
    assert!(replay.expect(201).is_replay());
    assert_eq!(replay.payment_id(), id);
    assert_eq!(call_count(&harness.psp).await, 1);
}

#[tokio::test]
async fn an_outcome_that_another_replica_recorded_reaches_the_waiting_caller() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let front = Front::open(&harness, LONG).await;
    let body = charge();
    let (answer, ()) = tokio::join!(front.caller.post("k-1", &body), async {
        eventually("it is stored", async || harness.count(OPEN).await == 1).await;
        // This recorder knows of no caller.
        assert_eq!(charge_what_is_due(&harness).await, 1);
    });
    assert!(!answer.expect(201).is_replay());
}

#[tokio::test]
async fn a_caller_is_woken_by_the_record_of_its_own_process() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let front = Front::open_without_poll(&harness).await;
    let body = charge();
    let (answer, ()) = tokio::join!(front.caller.post("k-1", &body), async {
        eventually("it is stored", async || harness.count(OPEN).await == 1).await;
        let answers = harness.stepper(LONG).call().await;
        let mut recorder = harness.recorder();
        recorder.waiting = front.waiting.clone();
        assert_eq!(recorder.record(&answers).await.unwrap(), 1);
    });
    assert!(!answer.expect(201).is_replay());
}

#[tokio::test]
async fn a_sweep_that_finds_the_charge_completes_the_key_and_wakes_the_caller() {
    let harness = Harness::create().await;
    let front = Front::open_without_poll(&harness).await;
    let (body, charge_id) = (charge(), Uuid::now_v7());
    let (answer, ()) = tokio::join!(front.caller.post("k-1", &body), async {
        eventually("it is stored", async || harness.count(OPEN).await == 1).await;
        let id: Uuid = sqlx::query_scalar("select order_id from payments")
            .fetch_one(&harness.pool)
            .await
            .unwrap();
        let key = format!("pay:{id}:0");
        let found = crate::reconciling::charge(charge_id, id, key);
        books_hold(&harness, vec![found]).await;
        let mut sweeper = reconciler(&harness, Duration::ZERO);
        sweeper.waiting = front.waiting.clone();
        assert_eq!(sweeper.sweep(ALL).await.unwrap().settled, 1);
    });
    assert_eq!(
        answer.expect(201).json()["charge_id"],
        charge_id.to_string()
    );
    assert!(
        front
            .caller
            .post("k-1", &body)
            .await
            .expect(201)
            .is_replay()
    );
    assert_eq!(stored(&harness).await, [1, 1, 1, 0]);
}

#[tokio::test]
async fn a_payment_whose_process_died_after_the_commit_is_charged_by_the_next() {
    let harness = Harness::create().await;
    captures(&harness.psp).await;
    let front = Front::open(&harness, NO_WAIT).await;
    let id = front.caller.post("k-1", &charge()).await.payment_id();
    drop(front);
    let running = start(&harness, &[]).await;
    eventually("it is captured", async || {
        harness.payment(id, 0).await.status == "captured"
    })
    .await;
    let replay = Caller::of(running.port).post("k-1", &charge()).await;
    assert!(replay.expect(201).is_replay());
    assert_eq!(replay.payment_id(), id);
    assert_eq!(calls(&harness.psp).await, [expected_call(id, 0)]);
    running.shutdown.cancel();
}

#[tokio::test]
async fn callers_wait_without_holding_connections_or_transactions() {
    let harness = Harness::create().await;
    captures_slowly(&harness.psp, Duration::from_secs(1)).await;
    let running = start(&harness, &["--database-connections-max", "2"]).await;
    let caller = Caller::of(running.port);
    let bodies: Vec<_> = (0..20)
        .map(|n| charge_with("reference", format!("r-{n}")))
        .collect();
    let waiting = join_all(bodies.iter().enumerate().map(|(n, body)| {
        let (caller, key) = (caller.clone(), format!("k-{n}"));
        async move { caller.post(&key, body).await }
    }));
    let watch = async {
        eventually("all calls are out", async || {
            call_count(&harness.psp).await == 20
        })
        .await;
        let open = "select count(*) from pg_stat_activity
                    where datname = current_database() and state like 'idle in transaction%'";
        assert_eq!(harness.count(open).await, 0);
        caller.get("/readyz").await.expect(200);
    };
    let (answers, ()) = tokio::join!(waiting, watch);
    for answer in answers {
        answer.expect(201);
    }
    running.shutdown.cancel();
}

#[tokio::test]
async fn a_service_that_is_told_to_stop_lets_nobody_wait() {
    let harness = Harness::create().await;
    captures_slowly(&harness.psp, Duration::from_secs(1)).await;
    // One call is out and the second payment waits for its slot, which a stopping service never gives.
    let flags = ["--psp-in-flight-max", "1", "--direct-wait-ms", "60000"];
    let running = start(&harness, &flags).await;
    let caller = Caller::of(running.port);
    let body = charge();
    let (one, two, ()) = tokio::join!(
        caller.post("k-1", &body),
        caller.post("k-2", &body),
        async {
            eventually("both are stored", async || harness.count(OPEN).await == 2).await;
            running.shutdown.cancel();
        }
    );
    for answer in [one, two] {
        answer.expect(202);
    }
    running.task.await.unwrap().unwrap();
}
