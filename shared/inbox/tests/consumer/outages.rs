//! A database that stops responding must not use up the connections of the pool.

use std::time::Duration;

use inbox::Consumer;
use sqlx::postgres::PgPoolOptions;
use testkit::fault_proxy::FaultProxy;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::effects::Effects;
use crate::harness::{Harness, event, eventually};

#[tokio::test]
async fn silent_database_leaks_no_pool_connection() {
    let harness = Harness::create().await;
    let proxy = FaultProxy::to(&harness.url).await.unwrap();
    // A single connection: if it were lost, none would be left.
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(Duration::from_secs(1))
        .test_before_acquire(false)
        .connect(&proxy.url)
        .await
        .unwrap();
    let mut settings = harness.settings();
    settings.transaction_max = Duration::from_secs(1);
    let consumer = Consumer::new(settings, pool.clone(), Effects::default()).unwrap();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(consumer.run(shutdown.clone()));
    let order = Uuid::new_v4();
    harness.topic.publish_to(0, &event(order, 1)).await;
    eventually("the first message has its effect", async || {
        harness.effects(order).await == [1]
    })
    .await;
    eventually("the connection is back in the pool", async || {
        pool.num_idle() == 1
    })
    .await;

    proxy.silence();
    harness.topic.publish_to(0, &event(order, 2)).await;
    eventually("the connection is in use", async || pool.num_idle() == 0).await;
    proxy.open();
    eventually("the second message has its effect", async || {
        harness.effects(order).await == [1, 2]
    })
    .await;
    shutdown.cancel();
    task.await.unwrap().unwrap();
}
