//! A connection stays open and never answers. Each worker gives it up, and goes on over another one.

use std::time::Duration;

use payment::reconciler::Reconciler;
use service_kit::database;
use testkit::fault_proxy::{FaultProxy, Loss};
use testkit::polling::eventually_within;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::application::{self, Running};
use crate::harness::{Harness, eventually};
use crate::provider::{calls, expected_call, mount_captures};
use crate::reconciling::{charge, mount_ledger, reconciler};

/// Longer than every timeout of the service.
const RECOVERED_WITHIN: Duration = Duration::from_secs(100);
/// One connection for each charger.
const CHARGERS: usize = 3;

async fn captured(harness: &Harness, order: Uuid) {
    eventually_within(RECOVERED_WITHIN, "the attempt is captured", async || {
        harness.payment(order, 1).await.status == "captured"
    })
    .await;
    assert_eq!(harness.event_types(order).await, ["payment.captured"]);
}

/// Waits until no worker of the service is stalled, then stops the service.
async fn stop_when_ready(running: Running) {
    let url = format!("http://127.0.0.1:{}/readyz", running.port);
    eventually("the service is ready", async || {
        reqwest::get(&url).await.unwrap().status() == 200
    })
    .await;
    running.shutdown.cancel();
    running.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn chargers_recover_from_silent_store_connections() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let store = FaultProxy::to(&harness.url).await.unwrap();
    let running = application::start_impatient(&harness, &["--database-url", &store.url]).await;
    let first = harness.open_new().await;
    captured(&harness, first).await;
    store.silence();
    eventually("every charger waits for the store", async || {
        store.unanswered() >= CHARGERS
    })
    .await;
    let second = harness.open_new().await;
    // New connections work again, the old ones stay silent.
    store.open();
    captured(&harness, second).await;
    // The recorder may get an old connection too. Its result is then discarded, and the call repeated.
    let mut calls = calls(&harness.psp).await;
    calls.dedup();
    assert_eq!(calls, [first, second].map(|order| expected_call(order, 1)));
    stop_when_ready(running).await;
}

#[tokio::test]
async fn recorder_recovers_from_a_silent_store_connection() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let store = FaultProxy::to(&harness.url).await.unwrap();
    // The statement that records answers.
    store.lose(Loss::ResponseThenSilence, "set status = result.status");
    let flags = [
        "--database-url",
        &store.url,
        "--psp-timeout-ms",
        "1000",
        "--lease-ms",
        "3000",
    ];
    let running = application::start_impatient(&harness, &flags).await;
    let order = harness.open_new().await;
    captured(&harness, order).await;
    assert!(store.has_lost());
    let calls = calls(&harness.psp).await;
    assert!(calls.iter().all(|it| *it == calls[0]), "{calls:?}");
    stop_when_ready(running).await;
}

#[tokio::test]
async fn charger_recovers_from_a_silent_provider_connection() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let provider = FaultProxy::to(&harness.psp.uri()).await.unwrap();
    provider.lose(Loss::ResponseThenSilence, "POST /v1/charges");
    let flags = [
        "--psp-url",
        provider.url.trim_end_matches('/'),
        "--psp-timeout-ms",
        "1000",
        "--lease-ms",
        "3000",
        // The silent call holds the only slot, so a new lease alone does not help.
        "--psp-in-flight-max",
        "1",
    ];
    let running = application::start(&harness, &flags).await;
    let order = harness.open_new().await;
    captured(&harness, order).await;
    assert!(provider.has_lost());
    let calls = calls(&harness.psp).await;
    assert!(calls.len() >= 2, "one was not answered: {calls:?}");
    assert!(calls.iter().all(|it| *it == calls[0]), "{calls:?}");
    stop_when_ready(running).await;
}

/// Runs the reconciler until it has settled an attempt from the books, whatever connection it loses first.
async fn settled_by(harness: &Harness, reconciler: Reconciler) {
    let order = harness.open_new().await;
    let in_books = charge(Uuid::now_v7(), order, format!("pay:{order}:1"));
    mount_ledger(harness, vec![in_books]).await;
    let reconciler = Reconciler {
        interval: Duration::from_millis(100),
        ..reconciler
    };
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(reconciler.run(shutdown.clone()));
    captured(harness, order).await;
    shutdown.cancel();
    running.await.unwrap().unwrap();
}

/// A reconciler whose first statement with this text gets no answer.
async fn silenced_at(harness: &Harness, statement: &str) -> (FaultProxy, Reconciler) {
    let store = FaultProxy::to(&harness.url).await.unwrap();
    store.lose(Loss::ResponseThenSilence, statement);
    let settings = database::Settings {
        database_url: store.url.clone(),
        database_connections_max: 4,
        database_acquire_timeout_ms: 2_000,
        database_statement_timeout_ms: 10_000,
    };
    let reconciler = Reconciler {
        pool: database::connect_lazy(&settings, "payment").unwrap(),
        page_wait_max: application::STORE_WAIT_MAX,
        ..reconciler(harness, Duration::ZERO)
    };
    (store, reconciler)
}

#[tokio::test]
async fn reconciler_recovers_if_a_page_gets_no_answer() {
    let harness = Harness::create().await;
    let (store, reconciler) = silenced_at(&harness, "select found.order_id").await;
    settled_by(&harness, reconciler).await;
    assert!(store.has_lost());
}

/// The silent session holds the lock until Postgres ends it.
#[tokio::test]
async fn reconciler_recovers_if_its_lock_gets_no_answer() {
    let harness = Harness::create().await;
    let (store, reconciler) = silenced_at(&harness, "pg_try_advisory_lock").await;
    settled_by(&harness, reconciler).await;
    assert!(store.has_lost());
}

#[tokio::test]
async fn reconciler_recovers_from_a_silent_provider() {
    let harness = Harness::create().await;
    let provider = FaultProxy::to(&harness.psp.uri()).await.unwrap();
    provider.lose(Loss::ResponseThenSilence, "GET /v1/ledger");
    let url = provider.url.trim_end_matches('/');
    let client = payment::psp::Client::new(url, Duration::from_secs(1)).unwrap();
    let reconciler = Reconciler {
        provider: std::sync::Arc::new(client),
        ..reconciler(&harness, Duration::ZERO)
    };
    settled_by(&harness, reconciler).await;
    assert!(provider.has_lost());
}
