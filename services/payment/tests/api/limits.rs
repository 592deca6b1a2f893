//! The limits of concurrent calls and of the database pool, in the running service.

use std::time::{Duration, Instant};

use reqwest::StatusCode;

use crate::application::start;
use crate::harness::{Harness, eventually};
use crate::provider::{call_count, mount_captures, mount_slow_captures};

const CAPTURED: &str = "select count(*) from payments where status = 'captured'";

#[tokio::test]
async fn calls_run_concurrently_up_to_the_limit() {
    let harness = Harness::create().await;
    mount_slow_captures(&harness.psp, Duration::from_secs(1)).await;
    for _ in 0..12 {
        harness.open_new().await;
    }
    // One principal gets half of the slots.
    let running = start(&harness, &["--psp-in-flight-max", "10"]).await;
    let started = Instant::now();
    eventually("as many calls as allowed are in flight", async || {
        call_count(&harness.psp).await == 5
    })
    .await;
    // The first response comes after a second.
    while started.elapsed() < Duration::from_millis(700) {
        assert!(call_count(&harness.psp).await <= 5, "above the limit");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    eventually("all are captured", async || {
        harness.count(CAPTURED).await == 12
    })
    .await;
    assert_eq!(call_count(&harness.psp).await, 12);
    running.shutdown.cancel();
}

#[tokio::test]
async fn no_transaction_is_open_during_a_call() {
    let harness = Harness::create().await;
    mount_slow_captures(&harness.psp, Duration::from_secs(1)).await;
    for _ in 0..10 {
        harness.open_new().await;
    }
    let running = start(&harness, &[]).await;
    eventually("the calls are in flight", async || {
        call_count(&harness.psp).await == 10
    })
    .await;
    // Other workers have short transactions. One that is open during a call is older than that.
    let open = "select count(*) from pg_stat_activity
                where datname = current_database() and state like 'idle in transaction%'
                  and xact_start < now() - interval '400 milliseconds'";
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(500) {
        assert_eq!(harness.count(open).await, 0);
    }
    assert_eq!(harness.count(CAPTURED).await, 0, "they are still in flight");
    running.shutdown.cancel();
}

#[tokio::test]
async fn slow_provider_does_not_occupy_the_database_pool() {
    let harness = Harness::create().await;
    mount_slow_captures(&harness.psp, Duration::from_secs(2)).await;
    for _ in 0..40 {
        harness.open_new().await;
    }
    // With a connection for each call, the pool would have to be twenty times as large.
    let running = start(&harness, &["--database-connections-max", "2"]).await;
    eventually("all calls are in flight", async || {
        call_count(&harness.psp).await == 40
    })
    .await;
    let url = format!("http://127.0.0.1:{}/readyz", running.port);
    for _ in 0..20 {
        let started = Instant::now();
        let ready = reqwest::get(&url).await.unwrap();
        assert_eq!(ready.status(), StatusCode::OK);
        assert!(started.elapsed() < Duration::from_millis(500));
    }
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
