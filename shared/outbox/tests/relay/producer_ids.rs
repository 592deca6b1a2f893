//! A broker that loses its data also forgets which producer ids it gave out.

use std::collections::BTreeSet;

use endpoints::topic::Topic;
use outbox::Settings;
use testkit::TestTopic;
use testkit::binaries::Binaries;
use testkit::broker::{Broker, Kafka};
use testkit::scratch::Scratch;
use testkit::supervisor::Supervisor;
use uuid::Uuid;

use crate::harness::{Harness, event};

/// Many partitions: the first batches of two producers in one partition have the same sequence numbers.
const PARTITIONS: i32 = 24;
const ORDERS: usize = 12;

/// After the loss the broker gives the id of an old producer to a new one. It then treats messages of one
/// producer as duplicates of the other's: it acknowledges them without storing them.
#[tokio::test]
async fn lost_producer_ids_lose_no_events() {
    let logs = Scratch::new().unwrap();
    let supervisor = Supervisor::new(true, true);
    let topic = Topic {
        name: format!("outbox-{}", Uuid::new_v4()),
        partitions: PARTITIONS,
    };
    let binaries = Binaries::locate(None).unwrap();
    let broker = Broker::start(
        &Kafka::Apache,
        &supervisor,
        &binaries,
        logs.path(),
        Some(&topic),
    )
    .await
    .unwrap();
    let mut harness = Harness::create().await;
    let other = Harness::create().await;
    harness.topic = TestTopic::existing(broker.brokers(), &topic.name, PARTITIONS);
    let settings = Settings::new(broker.brokers(), &topic.name);

    let mut old = harness.relay(settings.clone());
    harness.write(&[event(Uuid::new_v4(), 1)]).await;
    publish(&mut old, &harness).await;
    broker.lose_data(&supervisor, &topic).await.unwrap();

    // Events of the same orders go to the same partitions.
    let orders: Vec<Uuid> = (0..ORDERS).map(|_| Uuid::new_v4()).collect();
    let mut new = other.relay(settings);
    let mut expected = BTreeSet::new();
    for order in orders {
        let [first, second] = [event(order, 1), event(order, 2)];
        expected.extend([first.id.to_string(), second.id.to_string()]);
        harness.write(&[first]).await;
        other.write(&[second]).await;
        publish(&mut old, &harness).await;
        publish(&mut new, &other).await;
    }
    let stored: BTreeSet<String> = harness.ids().await.into_iter().collect();
    let lost: Vec<_> = expected.difference(&stored).collect();
    assert!(lost.is_empty(), "acknowledged and not stored: {lost:?}");
    broker.stop(&supervisor).await.unwrap();
}

/// Steps the relay until everything is published. A step may fail while the producer is replaced.
async fn publish(relay: &mut outbox::Relay, harness: &Harness) {
    testkit::eventually("everything is published", async || {
        let _ = relay.step().await;
        harness.unpublished().await == 0
    })
    .await;
}
