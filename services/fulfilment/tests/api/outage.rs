//! The store is unreachable. The service stays alive, reports that it is not ready, and
//! recovers by itself.

use testkit::fault_proxy::FaultProxy;

use crate::harness::{Harness, eventually};

/// More probes than the pool has connections: a probe that times out must release its connection.
const PROBES: usize = 5;

#[tokio::test]
async fn service_is_alive_but_not_ready_without_its_store() {
    let harness = Harness::create(&[]).await;
    let proxy = FaultProxy::to(&harness.url).await.unwrap();
    let two_connections = ["--database-connections-max", "2"];
    let running = harness
        .start_on(&proxy.url, &harness.group, &[two_connections])
        .await;
    let status = async |path: &str| {
        let url = format!("http://127.0.0.1:{}{path}", running.port);
        reqwest::get(url).await.unwrap().status().as_u16()
    };
    eventually("the service is ready", async || {
        status("/readyz").await == 200
    })
    .await;
    for disconnect in [FaultProxy::silence, FaultProxy::close] {
        disconnect(&proxy);
        for _ in 0..PROBES {
            assert_eq!(status("/readyz").await, 503);
            assert_eq!(status("/healthz").await, 200);
            assert_eq!(status("/metrics").await, 200);
        }
        proxy.open();
        eventually("the service is ready again", async || {
            status("/readyz").await == 200
        })
        .await;
    }
    running.stop().await;
}
