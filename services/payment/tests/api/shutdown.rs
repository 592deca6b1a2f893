//! The shutdown finishes calls in flight and starts no others.

use std::time::Duration;

use crate::application::start;
use crate::harness::{Harness, eventually};
use crate::provider::{call_count, mount_slow_captures};

#[tokio::test]
async fn shutdown_waits_for_calls_in_flight_and_records_them() {
    let harness = Harness::create().await;
    mount_slow_captures(&harness.psp, Duration::from_secs(1)).await;
    let mut orders = Vec::new();
    for _ in 0..5 {
        orders.push(harness.open_new().await);
    }
    let running = start(&harness, &[]).await;
    eventually("the calls are in flight", async || {
        call_count(&harness.psp).await == 5
    })
    .await;
    running.shutdown.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(8), running.task).await;
    ended.expect("the service does not stop").unwrap().unwrap();
    for order in orders {
        assert_eq!(harness.payment(order, 1).await.status, "captured");
        assert_eq!(harness.events(order).await.len(), 1);
    }
    assert_eq!(call_count(&harness.psp).await, 5);
}

#[tokio::test]
async fn shutdown_leases_nothing_more() {
    let harness = Harness::create().await;
    mount_slow_captures(&harness.psp, Duration::from_millis(500)).await;
    for _ in 0..6 {
        harness.open_new().await;
    }
    let running = start(&harness, &["--psp-in-flight-max", "2"]).await;
    eventually("two calls are in flight", async || {
        call_count(&harness.psp).await == 2
    })
    .await;
    running.shutdown.cancel();
    running.task.await.unwrap().unwrap();
    assert_eq!(call_count(&harness.psp).await, 2);
    let untouched = "select count(*) from payments where status = 'pending' and tries = 0";
    assert_eq!(harness.count(untouched).await, 4);
}
