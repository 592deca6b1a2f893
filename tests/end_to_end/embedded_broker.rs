//! The embedded broker dies and comes back empty.

use testkit::broker::{self, Kafka};

use crate::harness::{Harness, SETTLE_TIMEOUT, options};

/// Groups of the embedded broker never form with a shorter session.
const SESSION_TIMEOUT: &str = "KAFKA_SESSION_TIMEOUT_MS";

#[tokio::test]
async fn killed_embedded_broker_returns_and_new_orders_ship() -> anyhow::Result<()> {
    let mut options = options();
    options.kafka = Kafka::Embedded;
    let all = [
        &mut options.env.order,
        &mut options.env.payment,
        &mut options.env.fulfilment,
        &mut options.env.receipt,
    ];
    for env in all {
        env.retain(|(name, _)| name != SESSION_TIMEOUT);
    }
    let harness = Harness::start(options).await?;
    let before = harness.place_many(3).await?;
    harness.expect_shipped_once(&before).await?;

    // Twice: the second time, clients know an address that no longer exists from the first.
    for round in 1..=2 {
        harness.system.kill(broker::PROCESS_NAME).await?;
        let after = harness.place_many(3).await?;
        for order in &after {
            let shipped = harness
                .client
                .wait_for_status(*order, "shipped", SETTLE_TIMEOUT);
            shipped.await?;
        }
        harness.expect_shipped_once(&after).await?;
        assert_eq!(harness.system.restarts(broker::PROCESS_NAME), round);
    }
    harness.stop().await
}
