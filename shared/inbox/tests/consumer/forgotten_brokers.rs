//! Metadata without brokers, as a cluster sends it for a moment when all its brokers come back from a pause.
//! The Kafka client then forgets its brokers and closes every connection. The consumer reads again, whether its
//! client comes back or is replaced. And it ends, although such a client never finishes closing.

use std::time::Duration;

use testkit::kafka_proxy::KafkaProxy;
use uuid::Uuid;

use crate::effects::Effects;
use crate::harness::{Harness, WAIT_MAX, event, eventually};

/// How many metadata responses in a row name no broker.
const RESPONSES: usize = 3;

/// Hides the broker in this many metadata responses.
async fn hide(proxy: &KafkaProxy, responses: usize) {
    let before = proxy.hidden();
    proxy.hide_broker();
    eventually("responses name no broker", async || {
        proxy.hidden() >= before + responses
    })
    .await;
}

#[tokio::test]
async fn consumer_whose_client_forgot_the_brokers_reads_and_ends() {
    let harness = Harness::create().await;
    let proxy = KafkaProxy::to(&harness.topic.brokers).await.unwrap();
    let order = Uuid::new_v4();
    harness.topic.publish_to(0, &event(order, 1)).await;
    let mut settings = harness.settings();
    settings.brokers = proxy.address.clone();
    settings.statistics_interval = Duration::from_millis(200);
    settings.reconnect_after = Duration::from_secs(1);
    // Only the missing connection may replace the client.
    settings.client_stall_max = Duration::from_secs(3_600);
    let (shutdown, task) = harness.run(settings, Effects::default());
    let consumer_has = async |numbers: &[i32]| {
        eventually("the consumer reads", async || {
            harness.effects(order).await == numbers
        })
        .await;
    };
    consumer_has(&[1]).await;

    hide(&proxy, RESPONSES).await;
    proxy.show_broker();
    harness.topic.publish_to(0, &event(order, 2)).await;
    consumer_has(&[1, 2]).await;
    // Without a limit, the consumer would wait for the old client.
    shutdown.cancel();
    let ended = tokio::time::timeout(WAIT_MAX, task).await;
    ended.expect("the consumer does not end").unwrap().unwrap();
}

#[tokio::test]
async fn consumer_that_is_dropped_does_not_wait_for_its_client() {
    let harness = Harness::create().await;
    let proxy = KafkaProxy::to(&harness.topic.brokers).await.unwrap();
    let order = Uuid::new_v4();
    harness.topic.publish_to(0, &event(order, 1)).await;
    let mut settings = harness.settings();
    settings.brokers = proxy.address.clone();
    let mut consumer = harness.consumer(settings, Effects::default());
    consumer.step(WAIT_MAX).await.unwrap();

    // No more: a client that nothing replaces may never ask again.
    hide(&proxy, 1).await;
    let (done, dropped) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        drop(consumer);
        let _ = done.send(());
    });
    let ended = tokio::time::timeout(WAIT_MAX, dropped).await;
    ended.expect("dropping the consumer blocks").unwrap();
}
