//! S4: orders follow what payment and fulfilment say, in whatever order they hear it, and what is
//! stale or said again changes nothing.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::eventually;
use crate::service::{Service, migrated};
use crate::topic::Says::{Captured, Declined, Refunded, Shipped, Voided};
use crate::topic::Topic;

/// A service that hears the topic as a consumer group of its own, whose ledger is empty.
struct Listener {
    service: Service,
    group: String,
}

impl Listener {
    async fn start(database_url: &str, topic: &Topic) -> Self {
        let group = format!("order-{}", Uuid::new_v4());
        let service = Service::start_on(database_url, |config| {
            config.application.kafka.kafka_brokers = topic.brokers.clone();
            config.application.kafka.kafka_topic = topic.name.clone();
            config.application.kafka.kafka_fetch_wait_max_ms = 50;
            config.application.kafka_group = group.clone();
        })
        .await;
        Self { service, group }
    }

    /// Waits until it has processed so many messages.
    async fn processed(&self, messages: i64) {
        let ledger = "select count(*) from processed_messages where consumer_group = $1";
        eventually("all messages are processed", async || {
            let count: i64 = sqlx::query_scalar(ledger)
                .bind(&self.group)
                .fetch_one(&self.service.pool)
                .await
                .unwrap();
            (count >= messages).then_some(())
        })
        .await;
    }
}

/// Status, version, attempt and wish; as `GET` shows them.
async fn seen(service: &Service, id: Uuid) -> Value {
    let view = service.get(&format!("/orders/{id}")).await.json();
    json!([
        view["status"],
        view["version"],
        view["attempt"],
        view["cancel_requested"]
    ])
}

#[tokio::test]
async fn an_order_ends_where_it_should_in_whatever_order_it_hears_of_it() {
    let database_url = migrated().await;
    let topic = Topic::create().await;
    let listener = Listener::start(&database_url, &topic).await;
    let service = &listener.service;
    let mut orders = Vec::new();
    let mut messages = 0;
    for (said, end) in [
        (&[Captured, Shipped][..], json!(["shipped", 3, 1, false])),
        (&[Shipped, Captured], json!(["shipped", 3, 1, false])),
        (&[Captured, Refunded], json!(["refunded", 3, 1, false])),
        (&[Refunded], json!(["refunded", 3, 1, false])),
        (&[Declined], json!(["declined", 2, 1, false])),
    ] {
        let id = service.order_in("placed").await;
        for what in said {
            topic.say(id, 1, *what).await;
        }
        messages += said.len() as i64;
        orders.push((id, end));
    }
    for (said, end) in [
        (&[Voided][..], json!(["cancelled", 4, 1, true])),
        (&[Declined, Voided], json!(["cancelled", 4, 1, true])),
        (&[Captured, Refunded], json!(["refunded", 4, 1, true])),
        (&[Captured, Shipped], json!(["shipped", 4, 1, true])),
    ] {
        let id = service.order_in("placed").await;
        service.delete(id).await.expect(204);
        for what in said {
            topic.say(id, 1, *what).await;
        }
        messages += said.len() as i64;
        orders.push((id, end));
    }
    listener.processed(messages).await;
    for (id, end) in &orders {
        assert_eq!(seen(service, *id).await, *end, "{id}");
    }

    // Everything again, to a group whose ledger is empty: only the orders themselves know.
    let again = Listener::start(&database_url, &topic).await;
    again.processed(messages).await;
    for (id, end) in &orders {
        assert_eq!(seen(service, *id).await, *end, "{id}, told again");
    }
}

#[tokio::test]
async fn what_became_of_an_earlier_attempt_does_not_touch_the_one_that_is_open() {
    let database_url = migrated().await;
    let topic = Topic::create().await;
    let listener = Listener::start(&database_url, &topic).await;
    let service = &listener.service;
    let id = service.order_in("placed").await;
    topic.say(id, 1, Declined).await;
    listener.processed(1).await;
    assert_eq!(seen(service, id).await, json!(["declined", 2, 1, false]));
    service.pay("k-1", id, "pm_other").await.expect(201);

    // The decline of the first attempt comes again, to who does not remember it.
    let again = Listener::start(&database_url, &topic).await;
    topic.say(id, 1, Voided).await;
    again.processed(2).await;
    assert_eq!(seen(service, id).await, json!(["placed", 3, 2, false]));

    topic.say(id, 2, Captured).await;
    topic.say(id, 1, Refunded).await;
    topic.say(id, 2, Shipped).await;
    again.processed(5).await;
    assert_eq!(seen(service, id).await, json!(["shipped", 5, 2, false]));
}

#[tokio::test]
async fn an_order_cancelled_while_declined_stays_so_whatever_is_still_said() {
    let database_url = migrated().await;
    let topic = Topic::create().await;
    let listener = Listener::start(&database_url, &topic).await;
    let service = &listener.service;
    let id = service.order_in("declined").await;
    service.delete(id).await.expect(204);
    for what in [Declined, Voided] {
        topic.say(id, 1, what).await;
    }
    listener.processed(2).await;
    assert_eq!(seen(service, id).await, json!(["cancelled", 4, 1, true]));
}
