use std::collections::BTreeSet;
use std::time::Duration;

use events::Envelope;
use outbox::{Outcome, SHARDS};
use uuid::Uuid;

use crate::harness::{Harness, event, eventually, numbers};

const ALL: i64 = SHARDS as i64;

/// Orders enough to have some in every shard.
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
async fn two_relays_share_the_work_and_the_one_left_takes_over_all_of_it() {
    let harness = Harness::create().await;
    let orders = orders();
    let (_first_shutdown, first) = harness.run(harness.settings());
    eventually("one relay has everything", async || {
        harness.shares().await == [ALL]
    })
    .await;
    write_round(&harness, &orders, 1).await;
    let (_second_shutdown, _second) = harness.run(harness.settings());
    for number in 2..=10 {
        write_round(&harness, &orders, number).await;
    }
    eventually("two relays have half each", async || {
        harness.shares().await == [ALL / 2, ALL / 2]
    })
    .await;
    harness.all_published().await;
    write_round(&harness, &orders, 11).await;
    first.abort();
    write_round(&harness, &orders, 12).await;
    eventually("the other relay has everything", async || {
        harness.shares().await == [ALL]
    })
    .await;
    harness.all_published().await;

    // The one that was aborted may have sent what it did not mark: sent again, never overtaken.
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
async fn a_relay_that_is_paused_loses_its_shards_and_comes_back_harmlessly() {
    let harness = Harness::create().await;
    let mut settings = harness.settings();
    settings.silence_max = Duration::from_millis(300);
    let mut paused = harness.relay(settings);
    assert_eq!(paused.try_publish_batch().await.unwrap(), Outcome::Idle);
    assert_eq!(harness.shares().await, [ALL]);

    // From here on it is not stepped, as if its process had been stopped.
    let event = event(Uuid::new_v4(), 1);
    harness.write(std::slice::from_ref(&event)).await;
    let (_shutdown, _other) = harness.run(harness.settings());
    harness.all_published().await;

    // It finds its session gone, makes a new one, and sends nothing twice.
    assert!(paused.try_publish_batch().await.is_err());
    assert_eq!(paused.try_publish_batch().await.unwrap(), Outcome::Idle);
    assert_eq!(harness.ids().await, [event.id.to_string()]);
}
