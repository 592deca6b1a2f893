//! R11: the store is away. The service lives, says that it is not ready, and is again by itself.

use lab::wire::Wire;

use crate::world::{World, eventually};

/// More than there are connections: a probe must not keep the one that it was given up on.
const PROBES: usize = 5;

#[tokio::test]
async fn without_its_store_it_is_alive_but_not_ready_until_the_store_is_back() {
    let world = World::create(&[]).await;
    let wire = Wire::to(&world.url).await.unwrap();
    let few = ["--database-connections-max", "2"];
    let running = world.start_on(&wire.url, &world.group, &[few]).await;
    let status = async |path: &str| {
        let url = format!("http://127.0.0.1:{}{path}", running.port);
        reqwest::get(url).await.unwrap().status().as_u16()
    };
    eventually("it is ready", async || status("/readyz").await == 200).await;
    for away in [Wire::silence, Wire::close] {
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
