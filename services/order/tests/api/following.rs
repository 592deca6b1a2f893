//! The order service applies the events of payment and fulfilment in any order of arrival. A stale or
//! repeated event changes nothing.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::eventually;
use crate::harness::{Harness, migrated};
use crate::topic::EventKind::{Captured, Declined, Refunded, Shipped, Voided};
use crate::topic::Topic;

/// A service with a new consumer group, which has not processed any message.
pub(crate) struct Listener {
    pub(crate) harness: Harness,
    group: String,
}

impl Listener {
    pub(crate) async fn start(database_url: &str, topic: &Topic) -> Self {
        let group = format!("order-{}", Uuid::new_v4());
        let harness = Harness::start_on(database_url, |config| {
            config.application.kafka.kafka_brokers = topic.brokers.clone();
            config.application.kafka.kafka_topic = topic.name.clone();
            config.application.kafka.kafka_fetch_wait_max_ms = 50;
            config.application.kafka_group = group.clone();
        })
        .await;
        Self { harness, group }
    }

    /// Waits until this many messages are processed.
    pub(crate) async fn processed(&self, messages: i64) {
        let processed = "select count(*) from processed_messages where consumer_group = $1";
        eventually("all messages are processed", async || {
            let count: i64 = sqlx::query_scalar(processed)
                .bind(&self.group)
                .fetch_one(&self.harness.pool)
                .await
                .unwrap();
            (count >= messages).then_some(())
        })
        .await;
    }
}

/// Status, version, attempt and cancellation request, as `GET` shows them.
pub(crate) async fn seen(harness: &Harness, id: Uuid) -> Value {
    let view = harness.get(&format!("/orders/{id}")).await.json();
    json!([
        view["status"],
        view["version"],
        view["attempt"],
        view["cancel_requested"]
    ])
}

#[tokio::test]
async fn events_in_any_order_lead_to_the_same_end() {
    let database_url = migrated().await;
    let topic = Topic::create().await;
    let listener = Listener::start(&database_url, &topic).await;
    let harness = &listener.harness;
    let mut orders = Vec::new();
    let mut messages = 0;
    for (events, end) in [
        (&[Captured, Shipped][..], json!(["shipped", 3, 1, false])),
        (&[Shipped, Captured], json!(["shipped", 3, 1, false])),
        (&[Captured, Refunded], json!(["refunded", 3, 1, false])),
        (&[Refunded], json!(["refunded", 3, 1, false])),
        (&[Declined], json!(["declined", 2, 1, false])),
    ] {
        let id = harness.order_in("placed").await;
        for kind in events {
            topic.publish_event(id, 1, *kind).await;
        }
        messages += events.len() as i64;
        orders.push((id, end));
    }
    for (events, end) in [
        (&[Voided][..], json!(["cancelled", 4, 1, true])),
        (&[Declined, Voided], json!(["cancelled", 4, 1, true])),
        (&[Captured, Refunded], json!(["refunded", 4, 1, true])),
        (&[Captured, Shipped], json!(["shipped", 4, 1, true])),
    ] {
        let id = harness.order_in("placed").await;
        harness.delete(id).await.expect(204);
        for kind in events {
            topic.publish_event(id, 1, *kind).await;
        }
        messages += events.len() as i64;
        orders.push((id, end));
    }
    listener.processed(messages).await;
    for (id, end) in &orders {
        assert_eq!(seen(harness, *id).await, *end, "{id}");
    }

    // Redeliver everything to a new group, which has no processed messages: only the orders'
    // status and version prevent a second change.
    let again = Listener::start(&database_url, &topic).await;
    again.processed(messages).await;
    for (id, end) in &orders {
        assert_eq!(seen(harness, *id).await, *end, "{id}, redelivered");
    }
}

#[tokio::test]
async fn outcome_of_an_earlier_attempt_is_stale() {
    let database_url = migrated().await;
    let topic = Topic::create().await;
    let listener = Listener::start(&database_url, &topic).await;
    let harness = &listener.harness;
    let id = harness.order_in("placed").await;
    topic.publish_event(id, 1, Declined).await;
    listener.processed(1).await;
    assert_eq!(seen(harness, id).await, json!(["declined", 2, 1, false]));
    harness.pay("k-1", id, "pm_other").await.expect(201);

    // The new group receives the decline of the first attempt again.
    let again = Listener::start(&database_url, &topic).await;
    topic.publish_event(id, 1, Voided).await;
    again.processed(2).await;
    assert_eq!(seen(harness, id).await, json!(["placed", 3, 2, false]));

    topic.publish_event(id, 2, Captured).await;
    topic.publish_event(id, 1, Refunded).await;
    topic.publish_event(id, 2, Shipped).await;
    again.processed(5).await;
    assert_eq!(seen(harness, id).await, json!(["shipped", 5, 2, false]));
}

#[tokio::test]
async fn order_cancelled_while_declined_stays_cancelled() {
    let database_url = migrated().await;
    let topic = Topic::create().await;
    let listener = Listener::start(&database_url, &topic).await;
    let harness = &listener.harness;
    let id = harness.order_in("declined").await;
    harness.delete(id).await.expect(204);
    for kind in [Declined, Voided] {
        topic.publish_event(id, 1, kind).await;
    }
    listener.processed(2).await;
    assert_eq!(seen(harness, id).await, json!(["cancelled", 4, 1, true]));
}

/// The database was restored to a state before the customer paid again. The outcome of the lost attempt
/// applies, and paying again opens no attempt that payment would take for a duplicate.
#[tokio::test]
async fn outcome_of_a_lost_attempt_applies() {
    let database_url = migrated().await;
    let topic = Topic::create().await;
    let listener = Listener::start(&database_url, &topic).await;
    let harness = &listener.harness;
    let mut orders = Vec::new();
    let mut messages = 0;
    for (status, events, end) in [
        (
            "declined",
            &[(2, Captured), (2, Shipped)][..],
            json!(["shipped", 5, 2, false]),
        ),
        (
            "placed",
            &[(1, Declined), (3, Captured)],
            json!(["paid", 6, 3, false]),
        ),
        ("placed", &[(2, Declined)], json!(["declined", 4, 2, false])),
        (
            "declined",
            &[(2, Shipped), (2, Captured)],
            json!(["shipped", 5, 2, false]),
        ),
        // Ended: no later attempt can exist.
        ("shipped", &[(2, Declined)], json!(["shipped", 3, 1, false])),
    ] {
        let id = harness.order_in(status).await;
        for (attempt, kind) in events {
            topic.publish_event(id, *attempt, *kind).await;
        }
        messages += events.len() as i64;
        orders.push((id, end));
    }
    listener.processed(messages).await;
    for (id, end) in &orders {
        assert_eq!(seen(harness, *id).await, *end, "{id}");
    }
    harness
        .pay("k-1", orders[0].0, "pm_other")
        .await
        .expect(409);
    // The next attempt after a lost decline has the next number.
    harness
        .pay("k-2", orders[2].0, "pm_other")
        .await
        .expect(201);
    assert_eq!(
        seen(harness, orders[2].0).await,
        json!(["placed", 5, 3, false])
    );
}

/// The database was restored to a state before the client's cancellation request.
#[tokio::test]
async fn cancelled_order_gets_its_lost_request_back() {
    let database_url = migrated().await;
    let topic = Topic::create().await;
    let listener = Listener::start(&database_url, &topic).await;
    let harness = &listener.harness;
    let ids = [
        harness.order_in("placed").await,
        harness.order_in("declined").await,
    ];
    for id in ids {
        topic.publish_event(id, 1, Voided).await;
    }
    listener.processed(2).await;
    for id in ids {
        assert_eq!(seen(harness, id).await, json!(["cancelled", 4, 1, true]));
        harness.delete(id).await.expect(204);
    }
}
