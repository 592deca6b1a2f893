use std::time::Duration;

use crate::application::start;
use crate::provider::{call_count, captures_slowly};
use crate::world::{World, eventually};

#[tokio::test]
async fn a_service_that_is_told_to_stop_waits_for_the_calls_that_are_out_and_records_them() {
    let world = World::create().await;
    captures_slowly(&world.psp, Duration::from_secs(1)).await;
    let mut orders = Vec::new();
    for _ in 0..5 {
        orders.push(world.open_new().await);
    }
    let running = start(&world, &[]).await;
    eventually("the calls are out", async || {
        call_count(&world.psp).await == 5
    })
    .await;
    running.shutdown.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(8), running.task).await;
    ended.expect("it does not stop").unwrap().unwrap();
    for order in orders {
        assert_eq!(world.payment(order, 1).await.status, "captured");
        assert_eq!(world.events(order).await.len(), 1);
    }
    assert_eq!(call_count(&world.psp).await, 5);
}

#[tokio::test]
async fn a_service_that_is_told_to_stop_leases_nothing_more() {
    let world = World::create().await;
    captures_slowly(&world.psp, Duration::from_millis(500)).await;
    for _ in 0..6 {
        world.open_new().await;
    }
    let running = start(&world, &["--psp-in-flight-max", "2"]).await;
    eventually("two calls are out", async || {
        call_count(&world.psp).await == 2
    })
    .await;
    running.shutdown.cancel();
    running.task.await.unwrap().unwrap();
    assert_eq!(call_count(&world.psp).await, 2);
    let untouched = "select count(*) from payments where status = 'pending' and tries = 0";
    assert_eq!(world.count(untouched).await, 4);
}
