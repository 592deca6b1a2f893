//! The broker loses events that it acknowledged: the guard notices it and publishes them again.

use chrono::{TimeDelta, Utc};
use outbox::{Guard, GuardOutcome, Relay, StepOutcome};
use uuid::Uuid;

use crate::harness::{Harness, PARTITIONS, event, numbers};

impl Harness {
    pub(crate) fn guard(&self) -> Guard {
        let (brokers, topic) = (&self.topic.brokers, &self.topic.name);
        Guard::new(self.pool.clone(), brokers, topic, self.wake.clone()).unwrap()
    }

    /// Writes and publishes one event for each order.
    async fn publish(&self, relay: &mut Relay, orders: &[Uuid], number: i32) {
        let events: Vec<_> = orders.iter().map(|id| event(*id, number)).collect();
        self.write(&events).await;
        publish_all(relay).await;
    }

    /// The guard notices the loss. After the republication the topic has an event of each of these orders.
    async fn expect_loss_repaired(&self, relay: &mut Relay, orders: &[Uuid]) {
        let outcome = self.guard().step().await.unwrap();
        assert!(
            matches!(outcome, GuardOutcome::Republished(10..)),
            "{outcome:?}"
        );
        publish_all(relay).await;
        let messages = self.topic.read().await;
        for order in orders {
            assert!(!numbers(&messages, *order).is_empty());
        }
    }

    /// The broker loses the log. In the new one, this many messages of another producer come first in each partition, so
    /// that no event gets the position that it had.
    async fn recreate_with_other_messages(&self, count: i32) {
        self.topic.recreate().await;
        for partition in 0..PARTITIONS {
            for number in 1..=count {
                let other = event(Uuid::new_v4(), number);
                self.topic.publish_to(partition, &other).await;
            }
        }
    }

    /// Makes all checkpoints older, as if this time had passed.
    async fn age_checkpoints(&self, minutes: i64) {
        sqlx::query("update outbox_positions set minute = minute - make_interval(mins => $1)")
            .bind(minutes as i32)
            .execute(&self.pool)
            .await
            .unwrap();
    }
}

/// Steps until nothing is left. The first step after a republication finds its session ended.
async fn publish_all(relay: &mut Relay) {
    while !matches!(relay.step().await, Ok(StepOutcome::Idle)) {}
}

fn orders(count: usize) -> Vec<Uuid> {
    (0..count).map(|_| Uuid::new_v4()).collect()
}

#[tokio::test]
async fn recreated_topic_is_filled_again() {
    let harness = Harness::create().await;
    let guard = harness.guard();
    assert_eq!(
        guard.step().await.unwrap(),
        GuardOutcome::Intact,
        "nothing yet"
    );
    let mut relay = harness.relay(harness.settings());
    let orders = orders(20);
    harness.publish(&mut relay, &orders, 1).await;
    harness.publish(&mut relay, &orders, 2).await;
    assert_eq!(guard.step().await.unwrap(), GuardOutcome::Intact);
    harness.topic.recreate().await;
    assert_eq!(guard.step().await.unwrap(), GuardOutcome::Republished(40));
    publish_all(&mut relay).await;
    let messages = harness.topic.read().await;
    for order in &orders {
        assert_eq!(numbers(&messages, *order), [1, 2]);
    }
    assert_eq!(guard.step().await.unwrap(), GuardOutcome::Intact, "healed");
}

#[tokio::test]
async fn loss_is_noticed_although_the_log_grew_again() {
    let harness = Harness::create().await;
    let mut relay = harness.relay(harness.settings());
    let before = orders(10);
    harness.publish(&mut relay, &before, 1).await;
    harness.age_checkpoints(5).await;
    harness.topic.recreate().await;
    // More events than the old topic had, before the guard checks.
    let after = orders(200);
    harness.publish(&mut relay, &after, 1).await;
    let orders = [before, after].concat();
    harness.expect_loss_repaired(&mut relay, &orders).await;
}

/// Another producer delivers at higher offsets, in the minute in which the lost events were delivered.
#[tokio::test]
async fn loss_is_noticed_although_a_new_relay_delivered() {
    let harness = Harness::create().await;
    let mut relay = harness.relay(harness.settings());
    let before = orders(10);
    harness.publish(&mut relay, &before, 1).await;
    drop(relay);
    harness.topic.recreate().await;
    let mut relay = harness.relay(harness.settings());
    harness.publish(&mut relay, &orders(200), 1).await;
    harness.expect_loss_repaired(&mut relay, &before).await;
}

#[tokio::test]
async fn only_what_is_lost_is_published_again() {
    let harness = Harness::create().await;
    let mut relay = harness.relay(harness.settings());
    let kept = orders(30);
    harness.publish(&mut relay, &kept, 1).await;
    harness.age_checkpoints(10).await;
    let kept_until = Utc::now();
    let messages = harness.topic.read().await;
    let lost = orders(30);
    harness.publish(&mut relay, &lost, 1).await;
    // A topic whose partitions end where they did before.
    harness.topic.recreate().await;
    for message in &messages {
        harness.topic.publish_again(message).await;
    }
    assert_eq!(
        harness.guard().step().await.unwrap(),
        GuardOutcome::Republished(30)
    );
    let again: Vec<chrono::DateTime<Utc>> =
        sqlx::query_scalar("select created_at from outbox where published_at is null")
            .fetch_all(&harness.pool)
            .await
            .unwrap();
    assert!(again.iter().all(|created_at| *created_at > kept_until));
    publish_all(&mut relay).await;
    let messages = harness.topic.read().await;
    for order in kept.iter().chain(&lost) {
        assert_eq!(numbers(&messages, *order), [1]);
    }
}

#[tokio::test]
async fn loss_that_another_replica_repaired_is_not_repaired_again() {
    let harness = Harness::create().await;
    let (first, second) = (harness.guard(), harness.guard());
    let mut relay = harness.relay(harness.settings());
    harness.publish(&mut relay, &orders(20), 1).await;
    assert_eq!(first.step().await.unwrap(), GuardOutcome::Intact);
    assert_eq!(second.step().await.unwrap(), GuardOutcome::Intact);
    harness.recreate_with_other_messages(1).await;
    assert_eq!(first.step().await.unwrap(), GuardOutcome::Republished(20));
    publish_all(&mut relay).await;
    assert_eq!(second.step().await.unwrap(), GuardOutcome::Intact);
    // It still notices the next loss.
    harness.recreate_with_other_messages(2).await;
    assert_eq!(second.step().await.unwrap(), GuardOutcome::Republished(20));
    publish_all(&mut relay).await;
    assert_eq!(first.step().await.unwrap(), GuardOutcome::Intact);
}

/// The relay continues in the new log, in the minute and at the producer whose checkpoint would prove the loss.
#[tokio::test]
async fn loss_is_noticed_although_its_checkpoint_was_replaced() {
    let harness = Harness::create().await;
    let guard = harness.guard();
    let mut relay = harness.relay(harness.settings());
    let before = orders(10);
    harness.publish(&mut relay, &before, 1).await;
    assert_eq!(guard.step().await.unwrap(), GuardOutcome::Intact);
    harness.topic.recreate().await;
    let after = orders(200);
    harness.publish(&mut relay, &after, 1).await;
    assert_eq!(guard.step().await.unwrap(), GuardOutcome::Republished(210));
    publish_all(&mut relay).await;
    assert_eq!(guard.step().await.unwrap(), GuardOutcome::Intact);
}

#[tokio::test]
async fn loss_is_noticed_although_the_clock_was_set_back() {
    let harness = Harness::create().await;
    let guard = harness.guard();
    let mut relay = harness.relay(harness.settings());
    harness.publish(&mut relay, &orders(30), 1).await;
    // The clock is an hour ahead until the first check.
    harness.age_checkpoints(-60).await;
    assert_eq!(guard.step().await.unwrap(), GuardOutcome::Intact);
    let messages = harness.topic.read().await;
    harness.publish(&mut relay, &orders(30), 1).await;
    assert_eq!(guard.step().await.unwrap(), GuardOutcome::Intact);
    // The log loses its end.
    harness.topic.recreate().await;
    for message in &messages {
        harness.topic.publish_again(message).await;
    }
    let outcome = guard.step().await.unwrap();
    assert!(
        matches!(outcome, GuardOutcome::Republished(30..)),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn missing_topic_is_created_again() {
    let harness = Harness::create().await;
    let mut relay = harness.relay(harness.settings());
    let orders = orders(30);
    harness.publish(&mut relay, &orders, 1).await;
    harness.topic.delete().await;
    let guard = harness.guard();
    testkit::eventually("the guard creates the topic", async || {
        matches!(guard.step().await, Ok(GuardOutcome::Created))
    })
    .await;
    testkit::eventually("the guard notices the loss", async || {
        matches!(guard.step().await, Ok(GuardOutcome::Republished(30)))
    })
    .await;
    publish_all(&mut relay).await;
    assert_eq!(harness.topic.read().await.len(), 30);
}

/// A republication of the last hour that has marked nothing yet.
async fn store_republication(harness: &Harness) {
    sqlx::query(
        "insert into outbox_republication (since, until, ready_until, reason)
         values ($1, clock_timestamp(), $1, 'test')",
    )
    .bind(Utc::now() - TimeDelta::hours(1))
    .execute(&harness.pool)
    .await
    .unwrap();
}

#[tokio::test]
async fn interrupted_republication_is_continued() {
    let harness = Harness::create().await;
    let mut relay = harness.relay(harness.settings());
    let order = Uuid::new_v4();
    harness.publish(&mut relay, &[order], 1).await;
    drop(relay);
    // A process began and died.
    store_republication(&harness).await;
    harness.write(&[event(order, 2)]).await;
    // The new event waits behind the one that is to be published again.
    let mut relay = harness.relay(harness.settings());
    assert_eq!(relay.step().await.unwrap(), StepOutcome::Idle);
    let outcome = harness.guard().step().await.unwrap();
    assert_eq!(outcome, GuardOutcome::Republished(1));
    publish_all(&mut relay).await;
    assert_eq!(numbers(&harness.topic.read().await, order), [1, 1, 2]);
}

#[tokio::test]
async fn guard_that_continued_a_republication_begins_no_other() {
    let harness = Harness::create().await;
    let (first, second) = (harness.guard(), harness.guard());
    let mut relay = harness.relay(harness.settings());
    harness.publish(&mut relay, &orders(20), 1).await;
    assert_eq!(second.step().await.unwrap(), GuardOutcome::Intact);
    harness.recreate_with_other_messages(1).await;
    assert_eq!(first.step().await.unwrap(), GuardOutcome::Republished(20));
    // As if the first guard had died before the end.
    store_republication(&harness).await;
    let outcome = second.step().await.unwrap();
    assert!(matches!(outcome, GuardOutcome::Republished(_)));
    publish_all(&mut relay).await;
    assert_eq!(second.step().await.unwrap(), GuardOutcome::Intact);
}
