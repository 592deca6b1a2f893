//! The Kafka client or the database hangs. The consumer says so and starts a new client, or takes another
//! connection.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use service_kit::{Watch, database};
use testkit::fault_proxy::FaultProxy;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::effects::Effects;
use crate::harness::{Harness, event, eventually};

/// Settings with which a hang is noticed soon.
fn settings(harness: &Harness) -> inbox::Settings {
    let mut settings = harness.settings();
    settings.statistics_interval = Duration::from_millis(200);
    settings.session_timeout_ms = 2_000;
    settings.client_stall_max = Duration::from_secs(2);
    settings
}

/// Runs a consumer as a service does: watched.
fn run_watched(
    watch: &Watch,
    consumer: inbox::Consumer<Effects>,
) -> (CancellationToken, JoinHandle<anyhow::Result<()>>) {
    let shutdown = CancellationToken::new();
    let worker = consumer.run(shutdown.clone());
    let worker = watch.worker("consumer").of(worker);
    (shutdown, tokio::spawn(worker))
}

fn is_stalled(watch: &Watch) -> bool {
    watch.stalled().iter().any(|it| it.worker == "consumer")
}

#[tokio::test]
async fn client_that_delivers_nothing_is_replaced() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    harness.topic.publish_to(0, &event(order, 1)).await;
    let mut consumer = harness.consumer(settings(&harness), Effects::default());
    crate::harness::drain(&mut consumer, 1).await;
    consumer.pause_client();
    harness.topic.publish_to(0, &event(order, 2)).await;
    let watch = Watch::default();
    let (shutdown, task) = run_watched(&watch, consumer);
    eventually("the new client delivers the message", async || {
        harness.effects(order).await == [1, 2]
    })
    .await;
    eventually("the worker is not stalled", async || !is_stalled(&watch)).await;
    shutdown.cancel();
    task.await.unwrap().unwrap();
}

/// A member that takes part in the group's heartbeats and never answers a rebalance.
fn join_and_hang(harness: &Harness) -> BaseConsumer {
    let member: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &harness.topic.brokers)
        .set("group.id", &harness.group)
        .set("session.timeout.ms", "6000")
        .create()
        .unwrap();
    member.subscribe(&[&harness.topic.name]).unwrap();
    while member.assignment().unwrap().count() == 0 {
        member.poll(Duration::from_millis(100));
    }
    member
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumer_without_assignment_is_stalled_and_recovers() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    harness.topic.publish_to(0, &event(order, 1)).await;
    let member = tokio::task::block_in_place(|| join_and_hang(&harness));
    let watch = Watch::default();
    let consumer = harness.consumer(settings(&harness), Effects::default());
    let (shutdown, task) = run_watched(&watch, consumer);
    eventually("the worker is stalled", async || is_stalled(&watch)).await;
    assert_eq!(harness.effect_count().await, 0);
    // Leaves the group, so that the rebalance can end.
    tokio::task::block_in_place(|| drop(member));
    eventually("the message has its effect", async || {
        harness.effects(order).await == [1]
    })
    .await;
    eventually("the worker is not stalled", async || !is_stalled(&watch)).await;
    shutdown.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn batch_that_never_succeeds_is_a_stall() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    harness.topic.publish_to(0, &event(order, 1)).await;
    let watch = Watch::default();
    let effects = Effects::failing(crate::effects::ALWAYS);
    let consumer = harness.consumer(settings(&harness), effects.clone());
    let (shutdown, task) = run_watched(&watch, consumer);
    eventually("the worker is stalled", async || is_stalled(&watch)).await;
    effects.heal();
    eventually("the message has its effect", async || {
        harness.effects(order).await == [1]
    })
    .await;
    eventually("the worker is not stalled", async || !is_stalled(&watch)).await;
    shutdown.cancel();
    task.await.unwrap().unwrap();
}

/// The consumer's connection to the database stays open and never answers.
#[tokio::test]
async fn consumer_recovers_from_silent_store_connections() {
    let harness = Harness::create().await;
    let store = FaultProxy::to(&harness.url).await.unwrap();
    let pool = database::Settings {
        database_url: store.url.clone(),
        database_connections_max: 4,
        database_acquire_timeout_ms: 2_000,
        database_statement_timeout_ms: 10_000,
    };
    let pool = database::connect_lazy(&pool, "inbox").unwrap();
    let mut settings = settings(&harness);
    settings.transaction_max = Duration::from_secs(3);
    let consumer = inbox::Consumer::new(settings, pool, Effects::default()).unwrap();
    let order = Uuid::new_v4();
    let watch = Watch::default();
    let (shutdown, task) = run_watched(&watch, consumer);
    harness.topic.publish_to(0, &event(order, 1)).await;
    eventually("the first message has its effect", async || {
        harness.effects(order).await == [1]
    })
    .await;
    store.silence();
    harness.topic.publish_to(0, &event(order, 2)).await;
    eventually("the consumer waits for the store", async || {
        store.unanswered() > 0
    })
    .await;
    // New connections work again, the old ones stay silent.
    store.open();
    eventually("the second message has its effect", async || {
        harness.effects(order).await == [1, 2]
    })
    .await;
    eventually("the worker is not stalled", async || !is_stalled(&watch)).await;
    shutdown.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn idle_consumer_is_not_stalled() {
    let harness = Harness::create().await;
    let order = Uuid::new_v4();
    let mut settings = settings(&harness);
    settings.client_stall_max = Duration::from_millis(500);
    harness.topic.publish_to(0, &event(order, 1)).await;
    let watch = Watch::default();
    let steps = async {
        let mut consumer = harness.consumer(settings, Effects::default());
        crate::harness::drain(&mut consumer, 1).await;
        // Steps without a message, each longer than the limit.
        for _ in 0..3 {
            let step = consumer.step(Duration::from_secs(1)).await.unwrap();
            assert_eq!(step, inbox::StepOutcome::Idle);
            assert!(!is_stalled(&watch));
        }
    };
    watch.worker("consumer").of(steps).await;
}
