use crate::provider::captures;
use crate::world::{LONG, World};

#[tokio::test]
async fn an_answer_that_cannot_be_recorded_takes_no_other_along() {
    let world = World::create().await;
    captures(&world.psp).await;
    let broken = world.open_new().await;
    // Its event cannot be written.
    world.execute("update payments set lines = '7'").await;
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(world.open_new().await);
    }
    let mut stepper = world.stepper(LONG);
    let answers = stepper.call().await;
    assert_eq!(answers.len(), 4);
    world.record(&answers).await.unwrap_err();
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
    assert_eq!(world.payment(broken, 1).await.status, "unknown");
    assert!(world.events(broken).await.is_empty());
}

#[tokio::test]
async fn a_second_attempt_beside_one_that_may_take_money_is_refused_by_the_table() {
    let world = World::create().await;
    captures(&world.psp).await;
    let order = world.open_new().await;
    for status in ["pending", "captured"] {
        assert_eq!(world.payment(order, 1).await.status, status);
        let error = world.try_open(order, 2).await.unwrap_err();
        assert!(error.to_string().contains("payments_one_live"), "{error}");
        let answers = world.stepper(LONG).call().await;
        world.record(&answers).await.unwrap();
    }
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
