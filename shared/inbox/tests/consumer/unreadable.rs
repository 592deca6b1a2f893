use std::time::Duration;

use events::header;
use uuid::Uuid;

use crate::effects::Effects;
use crate::world::{World, event};

#[tokio::test]
async fn a_wanted_message_that_cannot_be_read_is_waited_for_and_not_stepped_over() {
    nobody_steps_over(&[(header::TYPE, "fulfilment.shipped")]).await;
}

#[tokio::test]
async fn a_message_that_does_not_say_what_it_is_might_be_wanted_and_is_not_stepped_over() {
    nobody_steps_over(&[]).await;
}

async fn nobody_steps_over(headers: &[(&str, &str)]) {
    let world = World::create().await;
    let order = Uuid::new_v4();
    world.topic.produce(0, &event(order, 1)).await;
    world.topic.produce_raw(0, headers, "no id, no order").await;
    world.topic.produce(0, &event(order, 2)).await;
    // Whoever comes meets it again: one message at a time shows how far each gets.
    for _ in 0..2 {
        let mut settings = world.settings();
        settings.batch_max = 1;
        let (shutdown, task) = world.run(settings, Effects::default());
        crate::world::eventually("the message before it is done", async || {
            world.effect_count().await == 1
        })
        .await;
        // Time in which the others would be done many times over.
        tokio::time::sleep(Duration::from_millis(500)).await;
        shutdown.cancel();
        task.await.unwrap().unwrap();
        assert_eq!(world.effects(order).await, [1]);
        assert_eq!(world.topic.committed(&world.group), [Some(1), None, None]);
    }
}
