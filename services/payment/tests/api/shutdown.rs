//! The shutdown finishes calls in flight and starts no others.

use crate::application::{Running, start_behind};
use crate::harness::{Harness, eventually};
use crate::provider::{call_count, held_captures};

/// Begins the shutdown, and waits until the service has closed its port. The calls are still in flight.
async fn begin(running: &Running) {
    running.shutdown.cancel();
    let url = format!("http://127.0.0.1:{}/readyz", running.port);
    eventually("the port is closed", async || {
        reqwest::get(&url).await.is_err()
    })
    .await;
}

#[tokio::test]
async fn shutdown_waits_for_calls_in_flight_and_records_them() {
    let harness = Harness::create().await;
    let provider = held_captures(&harness.psp).await;
    let mut orders = Vec::new();
    for _ in 0..5 {
        orders.push(harness.open_new().await);
    }
    let running = start_behind(&harness, &provider, &[]).await;
    eventually("the calls are in flight", async || {
        call_count(&harness.psp).await == 5
    })
    .await;
    begin(&running).await;
    provider.release();
    running.task.await.unwrap().unwrap();
    for order in orders {
        assert_eq!(harness.payment(order, 1).await.status, "captured");
        assert_eq!(harness.events(order).await.len(), 1);
    }
    assert_eq!(call_count(&harness.psp).await, 5);
}

#[tokio::test]
async fn shutdown_leases_nothing_more() {
    let harness = Harness::create().await;
    let provider = held_captures(&harness.psp).await;
    for _ in 0..6 {
        harness.open_new().await;
    }
    let running = start_behind(&harness, &provider, &["--psp-in-flight-max", "4"]).await;
    eventually("two calls are in flight", async || {
        call_count(&harness.psp).await == 2
    })
    .await;
    begin(&running).await;
    provider.release();
    running.task.await.unwrap().unwrap();
    assert_eq!(call_count(&harness.psp).await, 2);
    let untouched = "select count(*) from payments where status = 'pending' and tries = 0";
    assert_eq!(harness.count(untouched).await, 4);
}
