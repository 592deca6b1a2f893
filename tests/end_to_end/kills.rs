//! Any service killed at any moment while orders stream in.

use std::time::Duration;

use lab::service::Service;

use crate::world::{World, options};

const KILL_EVERY: usize = 30;
const ORDERS: usize = KILL_EVERY * Service::ALL.len();

#[tokio::test]
async fn killing_each_service_under_load_loses_and_doubles_nothing() -> anyhow::Result<()> {
    let world = World::start(options()).await?;
    let mut orders = Vec::with_capacity(ORDERS);
    let mut victims = Service::ALL.into_iter().cycle();
    for round in 0..ORDERS / KILL_EVERY {
        let (placed, killed) = tokio::join!(world.place_many(KILL_EVERY), async {
            // Somewhere in the middle of the burst, at another moment each round.
            tokio::time::sleep(Duration::from_millis(20 * round as u64 + 10)).await;
            match victims.next() {
                Some(victim) => world.system.kill(victim.name()).await,
                None => Ok(()),
            }
        });
        killed?;
        orders.extend(placed?);
    }
    world.expect_shipped_once(&orders).await?;
    world.stop().await
}
