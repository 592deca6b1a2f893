use std::time::Duration;

use inbox::Consumer;
use lab::wire::Wire;
use sqlx::postgres::PgPoolOptions;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::effects::Effects;
use crate::world::{World, event, eventually};

#[tokio::test]
async fn a_database_that_falls_silent_costs_the_pool_no_connection() {
    let world = World::create().await;
    let wire = Wire::to(&world.url).await.unwrap();
    // One only: if it were lost, there would be none.
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(Duration::from_secs(1))
        .test_before_acquire(false)
        .connect(&wire.url)
        .await
        .unwrap();
    let mut settings = world.settings();
    settings.transaction_max = Duration::from_secs(1);
    let consumer = Consumer::new(settings, pool.clone(), Effects::default()).unwrap();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(consumer.run(shutdown.clone()));
    let order = Uuid::new_v4();
    world.topic.produce(0, &event(order, 1)).await;
    eventually("the first has its effect", async || {
        world.effects(order).await == [1]
    })
    .await;
    eventually("its connection is back", async || pool.num_idle() == 1).await;

    wire.silence();
    world.topic.produce(0, &event(order, 2)).await;
    eventually("the connection is taken", async || pool.num_idle() == 0).await;
    wire.open();
    eventually("the second has its effect", async || {
        world.effects(order).await == [1, 2]
    })
    .await;
    shutdown.cancel();
    task.await.unwrap().unwrap();
}
