//! `committed` gets what its own transaction has handled: after the commit, once, and never after a rollback.

use std::pin::pin;

use inbox::Consumer;
use uuid::Uuid;

use crate::effects::Effects;
use crate::harness::{Harness, WAIT_MAX, drain, drain_parking, event, eventually};
use crate::operator::Operator;

/// Parks the messages 2 to 4 of an order. The handler rejected the second, and accepts all later.
async fn three_parked(
    harness: &Harness,
    effects: &Effects,
) -> (Uuid, Consumer<Effects>, Operator, i64) {
    let order = Uuid::new_v4();
    for number in 1..=4 {
        harness.topic.publish_to(0, &event(order, number)).await;
    }
    effects.poison(order, 2);
    let mut consumer = harness.consumer(harness.settings(), effects.clone());
    assert_eq!(drain_parking(&mut consumer, 4).await, [1, 0, 3, 0]);
    effects.heal();
    let operator = Operator::of(&consumer, &harness.pool).await;
    let id = operator.first_id().await;
    (order, consumer, operator, id)
}

#[tokio::test]
async fn batch_of_duplicates_does_not_call_committed() {
    let harness = Harness::create().await;
    let effects = Effects::default();
    let mut consumer = harness.consumer(harness.settings(), effects.clone());
    let event = event(Uuid::new_v4(), 1);
    harness.topic.publish_to(0, &event).await;
    assert_eq!(drain(&mut consumer, 1).await, [1, 0, 0]);
    assert_eq!(effects.committed(), [[1]]);
    harness.topic.publish_to(0, &event).await;
    assert_eq!(drain(&mut consumer, 1).await, [0, 1, 0]);
    assert_eq!(effects.committed(), [[1]]);
}

/// Makes COMMIT fail. A sequence counts the tries, because a rollback does not reset it.
const BREAK_COMMIT: &str = "
    create sequence commits;
    create function fail() returns trigger language plpgsql as $$
    begin
        perform nextval('commits');
        raise exception 'going down' using errcode = '57P01';
    end $$;
    create constraint trigger fail after insert on effects deferrable initially deferred
        for each row execute function fail();";

#[tokio::test]
async fn rolled_back_batch_is_never_committed_later() {
    let harness = Harness::create().await;
    harness.execute(BREAK_COMMIT).await;
    let effects = Effects::default();
    let mut consumer = harness.consumer(harness.settings(), effects.clone());
    let lost = event(Uuid::new_v4(), 1);
    harness.topic.publish_to(0, &lost).await;
    tokio::select! {
        _ = consumer.step(WAIT_MAX) => panic!("the step must not finish"),
        () = eventually("the batch was rolled back", async || {
            harness.count("select last_value from commits").await >= 2
        }) => {}
    }
    // Another replica has handled the message.
    sqlx::query("insert into processed_messages (consumer_group, message_id) values ($1, $2)")
        .bind(&harness.group)
        .bind(lost.id)
        .execute(&harness.pool)
        .await
        .unwrap();
    assert_eq!(drain(&mut consumer, 1).await, [0, 1, 0]);
    assert!(effects.committed().is_empty());
}

#[tokio::test]
async fn redrive_commits_all_its_messages() {
    let harness = Harness::create().await;
    let effects = Effects::default();
    let (order, _consumer, operator, id) = three_parked(&harness, &effects).await;
    effects.poison(order, 4);
    assert_eq!(operator.redrive(id).await, [2, 0, 1]);
    assert_eq!(effects.committed(), [vec![1], vec![2, 3]]);
    let failed = operator.first_id().await;
    assert_eq!(operator.redrive(failed).await, [0, 0, 1]);
    assert_eq!(
        effects.committed(),
        [vec![1], vec![2, 3]],
        "nothing handled"
    );
}

#[tokio::test]
async fn rolled_back_redrive_is_never_committed_later() {
    let harness = Harness::create().await;
    let effects = Effects::default();
    let (_, mut consumer, operator, id) = three_parked(&harness, &effects).await;
    let other = event(Uuid::new_v4(), 7);
    harness.topic.publish_to(1, &other).await;
    assert_eq!(drain(&mut consumer, 1).await, [1, 0, 0]);
    harness.execute(BREAK_COMMIT).await;
    operator.try_redrive(id).await;
    assert_eq!(harness.parked_count().await, 3);
    harness.topic.publish_to(1, &other).await;
    assert_eq!(drain(&mut consumer, 1).await, [0, 1, 0]);
    assert_eq!(effects.committed(), [[1], [7]]);
}

#[tokio::test]
async fn redrive_and_consumer_commit_their_own_messages() {
    let harness = Harness::create().await;
    let effects = Effects::default();
    let (_, mut consumer, operator, id) = three_parked(&harness, &effects).await;
    let other = event(Uuid::new_v4(), 7);
    harness.topic.publish_to(1, &other).await;
    assert_eq!(drain(&mut consumer, 1).await, [1, 0, 0]);
    // The redrive has handled its messages, and waits to write its audit row.
    let mut lock = harness.pool.begin().await.unwrap();
    let lock_audit_log = sqlx::query("lock table audit_log in share mode");
    lock_audit_log.execute(&mut *lock).await.unwrap();
    let mut redrive = pin!(operator.redrive(id));
    tokio::select! {
        _ = &mut redrive => panic!("the redrive must wait"),
        () = harness.blocked() => {}
    }
    harness.topic.publish_to(1, &other).await;
    assert_eq!(drain(&mut consumer, 1).await, [0, 1, 0]);
    assert_eq!(effects.committed(), [[1], [7]], "not committed yet");
    harness.topic.publish_to(1, &event(Uuid::new_v4(), 8)).await;
    assert_eq!(drain(&mut consumer, 1).await, [1, 0, 0]);
    assert_eq!(effects.committed(), [[1], [7], [8]], "not committed yet");
    lock.rollback().await.unwrap();
    assert_eq!(redrive.await, [3, 0, 0]);
    assert_eq!(
        effects.committed(),
        [vec![1], vec![7], vec![8], vec![2, 3, 4]]
    );
}
