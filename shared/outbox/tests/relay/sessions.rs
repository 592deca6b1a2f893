//! A relay whose database session ends connects again.

use sqlx::ConnectOptions as _;
use testkit::fault_proxy::FaultProxy;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use outbox::Relay;

use crate::harness::{Harness, event, eventually};

async fn end_relay_sessions(harness: &Harness) -> i64 {
    sqlx::query_scalar(
        "select count(*) from (
             select pg_terminate_backend(pid) from
                 (select distinct pid from pg_locks where locktype = 'advisory' and database =
                     (select oid from pg_database where datname = current_database())) as relay
         ) as ended",
    )
    .fetch_one(&harness.pool)
    .await
    .unwrap()
}

#[tokio::test]
async fn relay_reconnects_after_its_session_ends() {
    let harness = Harness::create().await;
    let (_shutdown, _task) = harness.run(harness.settings());
    let order = Uuid::new_v4();
    for number in 1..=3 {
        eventually("the relay holds shards", async || {
            !harness.shares().await.is_empty()
        })
        .await;
        assert_eq!(end_relay_sessions(&harness).await, 1);
        harness.write(&[event(order, number)]).await;
        harness.all_published().await;
    }
    let messages = harness.topic.read().await;
    assert_eq!(crate::harness::numbers(&messages, order), [1, 2, 3]);
}

#[tokio::test]
async fn relay_recovers_from_a_silent_database() {
    let harness = Harness::create().await;
    let url = harness.pool.connect_options().to_url_lossy();
    let proxy = FaultProxy::to(url.as_str()).await.unwrap();
    let database = proxy.url.parse().unwrap();
    let mut settings = harness.settings();
    settings.store_wait_max = std::time::Duration::from_secs(2);
    let relay = Relay::new(settings, database, harness.wake.clone()).unwrap();
    let task = tokio::spawn(relay.run(CancellationToken::new()));
    eventually("the relay holds shards", async || {
        !harness.shares().await.is_empty()
    })
    .await;
    // The connection never answers again. New ones do.
    proxy.silence();
    harness.write(&[event(Uuid::new_v4(), 1)]).await;
    harness.wake.wake();
    end_relay_sessions(&harness).await;
    proxy.open();
    harness.all_published().await;
    task.abort();
}
