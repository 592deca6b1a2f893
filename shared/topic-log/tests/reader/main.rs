//! Tests with a real Kafka. Each test has its own topic.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, also in the functions it calls"
)]

use events::{Envelope, FulfilmentShipped};
use testkit::TestTopic;
use testkit::test_topic::sealed;
use topic_log::{Log, Position, Presence};
use uuid::Uuid;

fn event() -> Envelope {
    let event = FulfilmentShipped {
        v: 1,
        order_id: Uuid::new_v4(),
        attempt: 1,
    };
    sealed("test", &event)
}

const fn at(offset: i64) -> Position {
    Position {
        partition: 1,
        offset,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn event_is_present_until_the_log_is_replaced() {
    let topic = TestTopic::create("log", 2).await;
    let log = Log::open(&topic.brokers, &topic.name).unwrap();
    let [first, second] = [event(), event()];
    for event in [&first, &second] {
        topic.publish_to(1, event).await;
    }
    assert_eq!(
        log.presence(first.id, at(0)).await.unwrap(),
        Presence::Present
    );
    assert_eq!(
        log.presence(second.id, at(1)).await.unwrap(),
        Presence::Present
    );
    assert_eq!(
        log.presence(second.id, at(2)).await.unwrap(),
        Presence::Lost
    );

    topic.recreate().await;
    let log = Log::open(&topic.brokers, &topic.name).unwrap();
    assert_eq!(
        log.presence(second.id, at(1)).await.unwrap(),
        Presence::Lost
    );
    // The log grows past the position. Only the id shows that it is another log.
    for _ in 0..3 {
        topic.publish_to(1, &event()).await;
    }
    assert_eq!(
        log.presence(second.id, at(1)).await.unwrap(),
        Presence::Lost
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn message_without_an_id_is_another_message() {
    let topic = TestTopic::create("log", 2).await;
    let log = Log::open(&topic.brokers, &topic.name).unwrap();
    topic.publish_raw(1, &[], "{}").await;
    let id = Uuid::new_v4();
    assert_eq!(log.presence(id, at(0)).await.unwrap(), Presence::Lost);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_broker_is_an_error() {
    let log = Log::open("127.0.0.1:1", "orders").unwrap();
    log.presence(Uuid::new_v4(), at(0)).await.unwrap_err();
}
