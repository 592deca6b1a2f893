//! A connection stays open and never answers. Sender and recorder give it up, and go on over another one.

use std::time::Duration;

use testkit::fault_proxy::{FaultProxy, Loss};
use testkit::polling::eventually_within;

use crate::application::{self, Running};
use crate::harness::{Harness, eventually};

/// Longer than every timeout of the service.
const RECOVERED_WITHIN: Duration = Duration::from_secs(100);

/// Waits until so many mails are sent, each once, and all of them recorded.
async fn sent(harness: &Harness, count: usize) {
    eventually_within(RECOVERED_WITHIN, "all mails are sent", async || {
        let sent = "select count(*) from receipts where status = 'sent'";
        harness.count(sent).await == count as i64
    })
    .await;
    assert_eq!(harness.mails().len(), count);
}

/// Waits until no worker of the service is stalled, then stops the service.
async fn stop_when_ready(running: Running) {
    let url = format!("http://127.0.0.1:{}/readyz", running.port);
    eventually("the service is ready", async || {
        reqwest::get(&url).await.unwrap().status() == 200
    })
    .await;
    running.stop().await;
}

#[tokio::test]
async fn sender_recovers_from_silent_store_connections() {
    let harness = Harness::create().await;
    let store = FaultProxy::to(&harness.url).await.unwrap();
    let running = application::start_impatient(&harness, &["--database-url", &store.url]).await;
    harness.log_new().await;
    sent(&harness, 1).await;
    store.silence();
    eventually("the sender waits for the store", async || {
        store.unanswered() > 0
    })
    .await;
    harness.log_new().await;
    // New connections work again, the old ones stay silent.
    store.open();
    sent(&harness, 2).await;
    stop_when_ready(running).await;
}

#[tokio::test]
async fn recorder_recovers_from_a_silent_store_connection() {
    let harness = Harness::create().await;
    let store = FaultProxy::to(&harness.url).await.unwrap();
    // The statement that records outcomes.
    store.lose(Loss::ResponseThenSilence, "set status = result.status");
    let running = application::start_impatient(&harness, &["--database-url", &store.url]).await;
    harness.log_new().await;
    sent(&harness, 1).await;
    assert!(store.has_lost());
    stop_when_ready(running).await;
}

#[tokio::test]
async fn sender_recovers_from_a_silent_mail_server() {
    let harness = Harness::create().await;
    let server = format!("smtp://127.0.0.1:{}", harness.smtp_port);
    let server = FaultProxy::to(&server).await.unwrap();
    let flags = [
        "--smtp-port",
        server.url.rsplit(':').next().unwrap(),
        "--smtp-timeout-ms",
        "1000",
        "--smtp-data-timeout-ms",
        "1000",
        "--lease-ms",
        "5000",
        // The silent delivery holds the only slot, so a new lease alone does not help.
        "--smtp-connections-max",
        "1",
    ];
    let running = application::start(&harness, &flags).await;
    harness.log_new().await;
    sent(&harness, 1).await;
    // The connection that the sender keeps open, and a new one.
    server.silence();
    harness.log_new().await;
    eventually("the sender waits for the mail server", async || {
        server.unanswered() > 0
    })
    .await;
    server.open();
    sent(&harness, 2).await;
    stop_when_ready(running).await;
}
