//! The store's response to a commit is lost. The stored payment is charged once, and the retry finds it.

use payment::direct::POLL_DEFAULT;
use sqlx::postgres::PgPoolOptions;
use testkit::fault_proxy::{FaultProxy, Loss};

use super::{NO_WAIT, charge_due, stored};
use crate::api_client::charge;
use crate::api_server::ApiServer;
use crate::harness::Harness;
use crate::provider::{call_count, mount_captures};

#[tokio::test]
async fn lost_commit_response_is_found_by_the_retry() {
    let harness = Harness::create().await;
    mount_captures(&harness.psp).await;
    let proxy = FaultProxy::to(&harness.url).await.unwrap();
    let pool = PgPoolOptions::new().max_connections(2);
    let pool = pool.connect(&proxy.url).await.unwrap();
    let server = ApiServer::start_with(&harness, pool, NO_WAIT, POLL_DEFAULT).await;
    proxy.lose_commit(Loss::Response);
    let lost = server.client.post("k-1", &charge()).await;
    lost.expect_problem(503, "temporarily_unavailable");
    assert!(proxy.has_lost());
    assert_eq!(stored(&harness).await, [1, 1, 0, 0]);

    let retry = server.client.post("k-1", &charge()).await;
    let problem = retry.expect_problem(409, "idempotency_key_in_flight");
    assert_eq!(charge_due(&harness).await, 1);
    let replay = server.client.post("k-1", &charge()).await;
    assert!(replay.expect(201).is_replay());
    assert_eq!(problem["payment_id"], replay.payment_id().to_string());
    assert_eq!(call_count(&harness.psp).await, 1);
}

/// After a failover the service may still be connected to a server that accepts no writes.
#[tokio::test]
async fn server_without_writes_is_an_outage() {
    let harness = Harness::create().await;
    let standby = format!("{}?options[default_transaction_read_only]=on", harness.url);
    let pool = PgPoolOptions::new().max_connections(2);
    let pool = pool.connect(&standby).await.unwrap();
    let server = ApiServer::start_with(&harness, pool, NO_WAIT, POLL_DEFAULT).await;
    let rejected = server.client.post("k-1", &charge()).await;
    rejected.expect_problem(503, "temporarily_unavailable");
    assert_eq!(stored(&harness).await, [0, 0, 0, 0]);
}
