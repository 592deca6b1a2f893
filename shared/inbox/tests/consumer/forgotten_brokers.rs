//! Metadata without brokers, as a cluster sends it for a moment when all its brokers come back from a pause.
//! The Kafka client then forgets its brokers and closes every connection. It goes back to the bootstrap servers,
//! and reads again. But it never finishes closing, so a consumer does not wait for that without a limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{Consumer as _, StreamConsumer};
use testkit::kafka_proxy::KafkaProxy;
use uuid::Uuid;

use crate::effects::Effects;
use crate::harness::{Harness, WAIT_MAX, event, eventually};

/// How many answers in a row name no broker.
const ANSWERS: usize = 3;

/// Hides the broker in this many metadata answers.
async fn hide(proxy: &KafkaProxy, answers: usize) {
    let before = proxy.hidden();
    proxy.hide_broker();
    eventually("answers name no broker", async || {
        proxy.hidden() >= before + answers
    })
    .await;
}

/// The client alone, in a group of its own. Returns the number of messages that it has received.
fn start_bare_client(harness: &Harness, brokers: &str) -> Arc<AtomicUsize> {
    let client: StreamConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", format!("bare-{}", harness.group))
        .set("auto.offset.reset", "earliest")
        .set("topic.metadata.refresh.interval.ms", "1000")
        .create()
        .unwrap();
    client.subscribe(&[&harness.topic.name]).unwrap();
    // Closing would wait for brokers that this client has forgotten. It ends with the process.
    let client: &'static StreamConsumer = Box::leak(Box::new(client));
    let received = Arc::<AtomicUsize>::default();
    let count = received.clone();
    tokio::spawn(async move {
        loop {
            let is_message = client.recv().await.is_ok();
            count.fetch_add(usize::from(is_message), Ordering::SeqCst);
        }
    });
    received
}

#[tokio::test]
async fn client_that_forgot_its_brokers_reads_and_ends() {
    let harness = Harness::create().await;
    let [bare_proxy, proxy] = [
        KafkaProxy::to(&harness.topic.brokers).await.unwrap(),
        KafkaProxy::to(&harness.topic.brokers).await.unwrap(),
    ];
    let order = Uuid::new_v4();
    harness.topic.publish_to(0, &event(order, 1)).await;
    let received = start_bare_client(&harness, &bare_proxy.address);
    let bare_has = async |count: usize| {
        eventually("the bare client reads", async || {
            received.load(Ordering::SeqCst) == count
        })
        .await;
    };
    bare_has(1).await;
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

    // The client closes every connection, although the broker answers on all of them.
    hide(&bare_proxy, ANSWERS).await;
    eventually("the bare client has no connection", async || {
        bare_proxy.connections() == 0
    })
    .await;
    bare_proxy.show_broker();
    hide(&proxy, ANSWERS).await;
    proxy.show_broker();
    harness.topic.publish_to(0, &event(order, 2)).await;
    consumer_has(&[1, 2]).await;
    bare_has(2).await;
    // Without a limit, the consumer would wait for the old client.
    shutdown.cancel();
    let ended = tokio::time::timeout(WAIT_MAX, task).await;
    ended.expect("the consumer does not end").unwrap().unwrap();
}
