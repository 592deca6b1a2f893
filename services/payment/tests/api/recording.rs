use uuid::Uuid;

use crate::provider::captures;
use crate::world::{LONG, World};

#[tokio::test]
async fn a_second_capture_of_one_order_is_refused_by_the_table_and_takes_no_other_along() {
    let world = World::create().await;
    captures(&world.psp).await;
    let twice = Uuid::new_v4();
    world.open(twice, 1).await;
    let answers = world.stepper(LONG).call().await;
    assert_eq!(world.record(&answers).await.unwrap(), 1);

    // What must never happen: a second attempt, charged although the first was captured.
    world.open(twice, 2).await;
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(world.open_new().await);
    }
    let mut stepper = world.stepper(LONG);
    let answers = stepper.call().await;
    assert_eq!(answers.len(), 4);
    let error = world.record(&answers).await.unwrap_err();
    assert!(format!("{error:#}").contains("payments_one_capture"));
    drop(answers);

    // The recorder itself finds the same batch in its channel.
    world.pass_time().await;
    assert_eq!(stepper.lease().await, 4);
    stepper.all_answered(4).await;
    world.recorder(stepper.into_answers()).run().await.unwrap();
    for order in others {
        assert_eq!(world.payment(order, 1).await.status, "captured");
        assert_eq!(world.events(order).await.len(), 1);
    }
    assert_eq!(world.payment(twice, 2).await.status, "pending");
    assert_eq!(world.events(twice).await.len(), 1);
    let captured = "select count(*) from payments where status = 'captured'";
    assert_eq!(world.count(captured).await, 4);
}

#[tokio::test]
async fn a_batch_of_answers_is_recorded_in_one_commit() {
    let world = World::create().await;
    captures(&world.psp).await;
    for _ in 0..50 {
        world.open_new().await;
    }
    let answers = world.stepper(LONG).call().await;
    assert_eq!(world.record(&answers).await.unwrap(), 50);
    let transactions = "select count(distinct xmin::text) from payments";
    assert_eq!(world.count(transactions).await, 1);
    assert_eq!(world.count("select count(*) from outbox").await, 50);
}
