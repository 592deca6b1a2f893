//! Services are killed at arbitrary moments under load.

use std::time::Duration;

use endpoints::Service;

use crate::harness::Harness;

const KILL_EVERY: usize = 30;
const ORDERS: usize = KILL_EVERY * Service::ALL.len();

#[tokio::test]
async fn killing_services_under_load_loses_and_duplicates_nothing() -> anyhow::Result<()> {
    let harness = Harness::shared().await?;
    let mut orders = Vec::with_capacity(ORDERS);
    let mut victims = Service::ALL.into_iter().cycle();
    for round in 0..ORDERS / KILL_EVERY {
        let (placed, killed) = tokio::join!(harness.place_many(KILL_EVERY), async {
            // In the middle of the burst, at a different moment in each round.
            tokio::time::sleep(Duration::from_millis(20 * round as u64 + 10)).await;
            match victims.next() {
                Some(victim) => harness.system.kill(victim.name()).await,
                None => Ok(()),
            }
        });
        killed?;
        orders.extend(placed?);
    }
    harness.expect_shipped_once(&orders).await?;
    harness.stop().await
}
