use uuid::Uuid;

use crate::effects::{Effects, FOR_EVER};
use crate::world::{World, drain, event, eventually};

#[tokio::test]
async fn a_batch_that_fails_is_tried_again_in_order_and_acknowledged_only_then() {
    let world = World::create().await;
    let order = Uuid::new_v4();
    for number in 1..=10 {
        world.topic.produce(0, &event(order, number)).await;
    }
    let failing = Effects::failing(FOR_EVER);
    let mut settings = world.settings();
    settings.batch_max = 4;
    let (shutdown, task) = world.run(settings, failing.clone());
    eventually("it has tried some times", async || failing.calls() >= 5).await;
    assert_eq!(world.effect_count().await, 0, "each try is rolled back");
    assert_eq!(world.ledger_count().await, 0);
    // Longer than the client takes to commit what is stored.
    let calls = failing.calls();
    eventually("it goes on trying", async || failing.calls() > calls + 25).await;
    assert_eq!(world.topic.committed(&world.group), [None; 3]);

    failing.heal();
    eventually("all have their effect", async || {
        world.effect_count().await == 10
    })
    .await;
    let expected: Vec<i32> = (1..=10).collect();
    assert_eq!(world.effects(order).await, expected);
    shutdown.cancel();
    task.await.unwrap().unwrap();
    assert_eq!(world.topic.committed(&world.group), [Some(10), None, None]);
}

#[tokio::test]
async fn one_step_outlasts_a_few_failures() {
    let world = World::create().await;
    let order = Uuid::new_v4();
    for number in 1..=6 {
        world.topic.produce(number % 3, &event(order, number)).await;
    }
    let failing = Effects::failing(3);
    let mut consumer = world.consumer(world.settings(), failing.clone());
    assert_eq!(drain(&mut consumer, 6).await, [6, 0, 0]);
    assert!(failing.calls() >= 4, "{}", failing.calls());
    assert_eq!(world.effect_count().await, 6);
    // Paused partitions were resumed.
    world.topic.produce(1, &event(order, 7)).await;
    assert_eq!(drain(&mut consumer, 1).await, [1, 0, 0]);
}

#[tokio::test]
async fn the_order_within_a_partition_survives_small_batches_and_failures() {
    let world = World::create().await;
    let orders = [(); 3].map(|()| Uuid::new_v4());
    for number in 1..=30 {
        for (partition, order) in (0..).zip(orders) {
            world.topic.produce(partition, &event(order, number)).await;
        }
    }
    let failing = Effects::failing(5);
    let mut settings = world.settings();
    settings.batch_max = 7;
    let mut consumer = world.consumer(settings, failing);
    assert_eq!(drain(&mut consumer, 90).await, [90, 0, 0]);
    let expected: Vec<i32> = (1..=30).collect();
    for order in orders {
        assert_eq!(world.effects(order).await, expected);
    }
}
