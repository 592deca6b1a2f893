//! The first request waits for the outcome: for a limited time, without a connection or a transaction.

use std::time::Duration;

use futures_util::future::join_all;
use leases::Record as _;
use testkit::postgres::database::transactions_end;
use uuid::Uuid;

use super::{NO_WAIT, charge_due, stored};
use crate::api_client::{ApiClient, charge, charge_with};
use crate::api_server::{ApiServer, WAITERS_MAX};
use crate::application::{start, start_behind};
use crate::harness::{Harness, LONG, eventually};
use crate::provider::{
    call_count, calls, expected_call, held_captures, mount_captures, mount_slow_captures,
};
use crate::reconciling::{all, mount_ledger, reconciler};
use crate::response::expect_in_flight;

const OPEN: &str = "select count(*) from payments";

#[tokio::test]
async fn first_request_returns_the_outcome() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let running = start(&harness, &[]).await;
    let client = ApiClient::new(running.port);
    let captured = client.post("k-1", &charge()).await;
    assert!(!captured.expect(201).is_replay());
    let id = captured.payment_id();
    assert_eq!(captured.json()["charge_id"], format!("ch_direct:{id}"));
    let replay = client.post("k-1", &charge()).await;
    assert!(replay.expect(201).is_replay());
    assert_eq!(replay.body, captured.body);
    assert_eq!(stored(&harness).await, [1, 1, 1, 0]);
    assert_eq!(calls(&harness.psp).await, [expected_call(id, 0)]);
    running.shutdown.cancel();
}

#[tokio::test]
async fn twenty_concurrent_requests_are_one_charge() {
    let harness = Harness::create().await;
    mount_slow_captures(&harness.psp, Duration::from_millis(300)).await;
    let running = start(&harness, &[]).await;
    let client = ApiClient::new(running.port);
    let body = charge();
    let responses = join_all((0..20).map(|_| client.post("k-1", &body))).await;
    let firsts = responses
        .iter()
        .filter(|response| response.status == 201 && !response.is_replay());
    assert_eq!(firsts.count(), 1);
    for response in responses.iter().filter(|response| response.status != 201) {
        response.expect_problem(409, "idempotency_key_in_flight");
    }
    assert!(client.post("k-1", &body).await.expect(201).is_replay());
    assert_eq!(call_count(&harness.psp).await, 1);
    assert_eq!(stored(&harness).await, [1, 1, 1, 0]);
    running.shutdown.cancel();
}

#[tokio::test]
async fn principal_with_its_share_of_waits_gets_202_at_once() {
    let harness = Harness::create().await;
    // Nothing charges, and nothing ends a wait.
    let server = ApiServer::start_without_poll(&harness).await;
    let client = &server.client;
    let bodies: Vec<_> = (0..WAITERS_MAX / 2)
        .map(|n| charge_with("reference", format!("r-{n}")))
        .collect();
    let waits = join_all(bodies.iter().enumerate().map(|(n, body)| {
        let client = client.clone();
        async move { client.post(&format!("k-{n}"), body).await }
    }));
    let others = async {
        eventually("all are stored", async || {
            harness.count(OPEN).await == bodies.len() as i64
        })
        .await;
        // The last ones may not have begun to wait: each of these requests takes no place then.
        eventually("one more does not wait", async || {
            let key = Uuid::new_v4().to_string();
            let body = charge();
            let post = client.post(&key, &body);
            let response = tokio::time::timeout(Duration::from_secs(2), post).await;
            response.is_ok_and(|response| response.status == 202)
        })
        .await;
    };
    tokio::select! {
        () = others => {}
        _ = waits => panic!("a request that had a place did not wait"),
    }
}

#[tokio::test]
async fn response_after_the_wait_is_202_and_a_retry_replays() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let server = ApiServer::start(&harness, Duration::from_millis(50)).await;
    let accepted = server.client.post("k-1", &charge()).await;
    let id = accepted.expect(202).payment_id();
    assert_eq!(accepted.json()["status"], "pending");
    assert_eq!(accepted.header("retry-after"), Some("1"));
    let url = format!("/payments/{id}");
    assert_eq!(accepted.header("location"), Some(&*url));
    let early = server.client.post("k-1", &charge()).await;
    expect_in_flight(&early, "idempotency_key_in_flight", id);

    assert_eq!(charge_due(&harness).await, 1);
    let replay = server.client.post("k-1", &charge()).await;
    assert!(replay.expect(201).is_replay());
    assert_eq!(replay.payment_id(), id);
    assert_eq!(call_count(&harness.psp).await, 1);
}

#[tokio::test]
async fn outcome_recorded_by_another_replica_ends_the_wait() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let server = ApiServer::start(&harness, LONG).await;
    let body = charge();
    let (response, ()) = tokio::join!(server.client.post("k-1", &body), async {
        eventually("it is stored", async || harness.count(OPEN).await == 1).await;
        // This recorder has its own list of waiting requests, so it cannot wake this one.
        assert_eq!(charge_due(&harness).await, 1);
    });
    assert!(!response.expect(201).is_replay());
}

#[tokio::test]
async fn recorder_wakes_a_waiting_request_of_its_process() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let server = ApiServer::start_without_poll(&harness).await;
    let body = charge();
    let (response, ()) = tokio::join!(server.client.post("k-1", &body), async {
        eventually("it is stored", async || harness.count(OPEN).await == 1).await;
        let answers = harness.stepper(LONG).call().await;
        let mut recorder = harness.recorder();
        recorder.waiting = server.waiting.clone();
        assert_eq!(recorder.record(&answers).await.unwrap(), 1);
    });
    assert!(!response.expect(201).is_replay());
}

#[tokio::test]
async fn reconciler_completes_the_key_and_wakes_the_request() {
    let harness = Harness::create().await;
    let server = ApiServer::start_without_poll(&harness).await;
    let (body, charge_id) = (charge(), Uuid::now_v7());
    let (response, ()) = tokio::join!(server.client.post("k-1", &body), async {
        eventually("it is stored", async || harness.count(OPEN).await == 1).await;
        let id: Uuid = sqlx::query_scalar("select order_id from payments")
            .fetch_one(&harness.pool)
            .await
            .unwrap();
        let key = format!("pay:{id}:0");
        let found = crate::reconciling::charge(charge_id, id, key);
        mount_ledger(&harness, vec![found]).await;
        let mut reconciler = reconciler(&harness, Duration::ZERO);
        reconciler.waiting = server.waiting.clone();
        assert_eq!(reconciler.reconcile(&all()).await.unwrap().settled, 1);
    });
    assert_eq!(
        response.expect(201).json()["charge_id"],
        charge_id.to_string()
    );
    assert!(
        server
            .client
            .post("k-1", &body)
            .await
            .expect(201)
            .is_replay()
    );
    assert_eq!(stored(&harness).await, [1, 1, 1, 0]);
}

#[tokio::test]
async fn payment_of_a_dead_process_is_charged_by_the_next() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let server = ApiServer::start(&harness, NO_WAIT).await;
    let id = server.client.post("k-1", &charge()).await.payment_id();
    drop(server);
    let running = start(&harness, &[]).await;
    eventually("it is captured", async || {
        harness.payment(id, 0).await.status == "captured"
    })
    .await;
    let replay = ApiClient::new(running.port).post("k-1", &charge()).await;
    assert!(replay.expect(201).is_replay());
    assert_eq!(replay.payment_id(), id);
    assert_eq!(calls(&harness.psp).await, [expected_call(id, 0)]);
    running.shutdown.cancel();
}

#[tokio::test]
async fn requests_wait_without_connections_or_transactions() {
    let harness = Harness::create().await;
    let provider = held_captures(&harness.psp).await;
    let flags = [
        "--database-connections-max",
        "2",
        "--direct-wait-ms",
        "60000",
    ];
    let running = start_behind(&harness, &provider, &flags).await;
    let client = ApiClient::new(running.port);
    let bodies: Vec<_> = (0..20)
        .map(|n| charge_with("reference", format!("r-{n}")))
        .collect();
    let waiting = join_all(bodies.iter().enumerate().map(|(n, body)| {
        let (client, key) = (client.clone(), format!("k-{n}"));
        async move { client.post(&key, body).await }
    }));
    let watch = async {
        eventually("all calls are in flight", async || {
            call_count(&harness.psp).await == 20
        })
        .await;
        transactions_end(&harness.pool).await;
        client.get("/readyz").await.expect(200);
        provider.release();
    };
    let (responses, ()) = tokio::join!(waiting, watch);
    for response in responses {
        response.expect(201);
    }
    running.shutdown.cancel();
}

#[tokio::test]
async fn shutdown_ends_every_wait() {
    let harness = Harness::create().await;
    let provider = held_captures(&harness.psp).await;
    // One call is in flight. The second payment waits for a slot, and does not get one once the
    // shutdown has begun.
    let flags = ["--psp-in-flight-max", "1", "--direct-wait-ms", "60000"];
    let running = start_behind(&harness, &provider, &flags).await;
    let client = ApiClient::new(running.port);
    let body = charge();
    let (one, two, ()) = tokio::join!(
        client.post("k-1", &body),
        client.post("k-2", &body),
        async {
            eventually("both are stored", async || harness.count(OPEN).await == 2).await;
            running.shutdown.cancel();
        }
    );
    for response in [one, two] {
        response.expect(202);
    }
    provider.release();
    running.task.await.unwrap().unwrap();
}
