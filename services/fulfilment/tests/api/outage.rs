//! R11: the store is away. The service lives, says that it is not ready, and is again by itself.

use testkit::fault_proxy::FaultProxy;

use crate::harness::{Harness, eventually};

/// More than there are connections: a probe must not keep the one that it was given up on.
const PROBES: usize = 5;

#[tokio::test]
async fn without_its_store_it_is_alive_but_not_ready_until_the_store_is_back() {
    let harness = Harness::create(&[]).await;
    let wire = FaultProxy::to(&harness.url).await.unwrap();
    let few = ["--database-connections-max", "2"];
    let running = harness.start_on(&wire.url, &harness.group, &[few]).await;
    let status = async |path: &str| {
        let url = format!("http://127.0.0.1:{}{path}", running.port);
        reqwest::get(url).await.unwrap().status().as_u16()
    };
    eventually("it is ready", async || status("/readyz").await == 200).await;
    for away in [FaultProxy::silence, FaultProxy::close] {
        away(&wire);
        for _ in 0..PROBES {
            assert_eq!(status("/readyz").await, 503);
            assert_eq!(status("/healthz").await, 200);
            assert_eq!(status("/metrics").await, 200);
        }
        wire.open();
        eventually("it is ready again", async || status("/readyz").await == 200).await;
    }
    running.stop().await;
}
