//! The limits of concurrent calls and of the database pool, in the running service.

use reqwest::StatusCode;
use testkit::postgres::database::transactions_end;
use uuid::Uuid;

use crate::application::{start, start_behind};
use crate::harness::{Harness, eventually};
use crate::provider::{call_count, held_captures, mount_captures};

const CAPTURED: &str = "select count(*) from payments where status = 'captured'";
const LEASED: [&str; 2] = [
    "select count(*) from payments where principal = 'acme' and lease_token is not null",
    "select count(*) from payments where principal = 'globex' and lease_token is not null",
];

#[tokio::test]
async fn calls_run_concurrently_up_to_the_limit() {
    let harness = Harness::create().await;
    let provider = held_captures(&harness.psp).await;
    for _ in 0..12 {
        harness.open_new().await;
    }
    // One principal gets half of the slots.
    let running = start_behind(&harness, &provider, &["--psp-in-flight-max", "10"]).await;
    eventually("as many calls as allowed are in flight", async || {
        call_count(&harness.psp).await >= 5
    })
    .await;
    // A later step gives three of the other five to another principal, and nothing more to the first: each has no
    // more than what is free.
    for _ in 0..12 {
        let opened = harness.open_for("globex", Uuid::new_v4(), 1).await;
        opened.unwrap();
    }
    eventually("the other one has its share", async || {
        call_count(&harness.psp).await >= 8
    })
    .await;
    let [acme, globex] = LEASED.map(|leased| harness.count(leased));
    assert_eq!((acme.await, globex.await), (5, 3));
    assert_eq!(call_count(&harness.psp).await, 8);
    provider.release();
    eventually("all are captured", async || {
        harness.count(CAPTURED).await == 24
    })
    .await;
    assert_eq!(call_count(&harness.psp).await, 24);
    running.shutdown.cancel();
}

#[tokio::test]
async fn no_transaction_is_open_during_a_call() {
    let harness = Harness::create().await;
    let provider = held_captures(&harness.psp).await;
    for _ in 0..10 {
        harness.open_new().await;
    }
    let running = start_behind(&harness, &provider, &[]).await;
    eventually("the calls are in flight", async || {
        call_count(&harness.psp).await == 10
    })
    .await;
    transactions_end(&harness.pool).await;
    assert_eq!(harness.count(CAPTURED).await, 0, "they are still in flight");
    running.shutdown.cancel();
}

#[tokio::test]
async fn slow_provider_does_not_occupy_the_database_pool() {
    let harness = Harness::create().await;
    let provider = held_captures(&harness.psp).await;
    for _ in 0..40 {
        harness.open_new().await;
    }
    // With a connection for each call, the pool would have to be twenty times as large.
    let few = ["--database-connections-max", "2"];
    let running = start_behind(&harness, &provider, &few).await;
    eventually("all calls are in flight", async || {
        call_count(&harness.psp).await == 40
    })
    .await;
    let url = format!("http://127.0.0.1:{}/readyz", running.port);
    for _ in 0..20 {
        let ready = reqwest::get(&url).await.unwrap();
        assert_eq!(ready.status(), StatusCode::OK);
    }
    provider.release();
    eventually("all are captured", async || {
        harness.count(CAPTURED).await == 40
    })
    .await;
    assert_eq!(call_count(&harness.psp).await, 40);
    running.shutdown.cancel();
}

#[tokio::test]
async fn service_retries_until_the_provider_answers() {
    let harness = Harness::create().await;
    let failure = wiremock::ResponseTemplate::new(503);
    crate::provider::mount_first_charge_responses(&harness.psp, 4, failure).await;
    mount_captures(&harness.psp).await;
    let order = harness.open_new().await;
    let running = start(&harness, &[]).await;
    eventually("it is captured", async || {
        harness.payment(order, 1).await.status == "captured"
    })
    .await;
    assert_eq!(harness.payment(order, 1).await.tries, 5);
    let call = crate::provider::expected_call(order, 1);
    assert_eq!(crate::provider::calls(&harness.psp).await, vec![call; 5]);
    running.shutdown.cancel();
}
