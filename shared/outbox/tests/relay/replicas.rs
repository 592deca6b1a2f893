//! Several relays share the shards. A relay that dies or is paused loses its own.

use std::collections::BTreeSet;
use std::time::Duration;

use events::Envelope;
use outbox::{Relay, SHARDS, StepOutcome};
use sqlx::PgPool;
use uuid::Uuid;

use crate::harness::{Harness, event, eventually, numbers};

const ALL: i64 = SHARDS as i64;

/// Enough orders to have some in every shard.
fn orders() -> Vec<Uuid> {
    let orders: Vec<Uuid> = (0..64).map(Uuid::from_u128).collect();
    let shards: BTreeSet<i16> = orders.iter().map(|id| outbox::shard_of(*id)).collect();
    assert_eq!(shards.len(), usize::try_from(ALL).unwrap());
    orders
}

async fn write_round(harness: &Harness, orders: &[Uuid], number: i32) {
    let events: Vec<Envelope> = orders.iter().map(|id| event(*id, number)).collect();
    harness.write(&events).await;
    harness.wake.wake();
}

#[tokio::test]
async fn relays_share_the_shards_and_a_survivor_takes_all() {
    let harness = Harness::create().await;
    let orders = orders();
    let (_first_shutdown, first) = harness.run(harness.settings());
    eventually("one relay has all shards", async || {
        harness.shares().await == [ALL]
    })
    .await;
    write_round(&harness, &orders, 1).await;
    let (_second_shutdown, _second) = harness.run(harness.settings());
    for number in 2..=10 {
        write_round(&harness, &orders, number).await;
    }
    eventually("each relay has half of the shards", async || {
        harness.shares().await == [ALL / 2, ALL / 2]
    })
    .await;
    harness.all_published().await;
    write_round(&harness, &orders, 11).await;
    first.abort();
    write_round(&harness, &orders, 12).await;
    eventually("the other relay has all shards", async || {
        harness.shares().await == [ALL]
    })
    .await;
    harness.all_published().await;

    // The aborted relay may have sent rows without marking them. They are sent again, and no later
    // event overtakes them.
    let messages = harness.topic.read().await;
    for order in orders {
        let mut seen = numbers(&messages, order);
        let mut firsts = BTreeSet::new();
        seen.retain(|number| firsts.insert(*number));
        let expected: Vec<i32> = (1..=12).collect();
        assert_eq!(seen, expected, "{order}");
    }
}

#[tokio::test]
async fn paused_relay_loses_its_shards_and_resumes_safely() {
    let harness = Harness::create().await;
    let mut settings = harness.settings();
    // A busy machine must see its shards before they are free.
    settings.session_idle_max = Duration::from_secs(2);
    let mut paused = harness.relay(settings);
    assert_eq!(paused.step().await.unwrap(), StepOutcome::Idle);
    assert_eq!(harness.shares().await, [ALL]);

    // It makes no more steps, as if its process were stopped.
    let event = event(Uuid::new_v4(), 1);
    harness.write(std::slice::from_ref(&event)).await;
    let (_shutdown, _other) = harness.run(harness.settings());
    harness.all_published().await;

    // Its session has ended. It opens a new one and sends nothing twice.
    assert!(paused.step().await.is_err());
    // On a busy machine the new session may end as well.
    eventually("the relay has a session", async || {
        matches!(paused.step().await, Ok(StepOutcome::Idle))
    })
    .await;
    assert_eq!(harness.ids().await, [event.id.to_string()]);
}

#[tokio::test]
async fn outboxes_of_two_schemas_do_not_share_shards() {
    let harness = Harness::create().await;
    sqlx::raw_sql("create schema other")
        .execute(&harness.pool)
        .await
        .unwrap();
    let options = (*harness.pool.connect_options()).clone();
    let other = options.options([("search_path", "other")]);
    let pool = PgPool::connect_with(other.clone()).await.unwrap();
    sqlx::migrate!("../../migrations/outbox")
        .run(&pool)
        .await
        .unwrap();
    let mut relay = harness.relay(harness.settings());
    let mut other = Relay::new(harness.settings(), other, harness.wake.clone()).unwrap();
    for _ in 0..2 {
        assert_eq!(relay.step().await.unwrap(), StepOutcome::Idle);
        assert_eq!(other.step().await.unwrap(), StepOutcome::Idle);
    }
    assert_eq!(harness.shares().await, [ALL, ALL]);
}
