use std::time::Duration;

use inbox::Consumer;
use sqlx::postgres::PgPoolOptions;
use testkit::fault_proxy::FaultProxy;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::effects::Effects;
use crate::harness::{Harness, event, eventually};

#[tokio::test]
async fn a_database_that_falls_silent_costs_the_pool_no_connection() {
    let harness = Harness::create().await;
    let wire = FaultProxy::to(&harness.url).await.unwrap();
    // One only: if it were lost, there would be none.
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(Duration::from_secs(1))
        .test_before_acquire(false)
        .connect(&wire.url)
        .await
        .unwrap();
    let mut settings = harness.settings();
    settings.transaction_max = Duration::from_secs(1);
    let consumer = Consumer::new(settings, pool.clone(), Effects::default()).unwrap();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(consumer.run(shutdown.clone()));
    let order = Uuid::new_v4();
    harness.topic.publish_to(0, &event(order, 1)).await;
    eventually("the first has its effect", async || {
        harness.effects(order).await == [1]
    })
    .await;
    eventually("its connection is back", async || pool.num_idle() == 1).await;

    wire.silence();
    harness.topic.publish_to(0, &event(order, 2)).await;
    eventually("the connection is taken", async || pool.num_idle() == 0).await;
    wire.open();
    eventually("the second has its effect", async || {
        harness.effects(order).await == [1, 2]
    })
    .await;
    shutdown.cancel();
    task.await.unwrap().unwrap();
}
