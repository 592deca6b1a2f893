//! Two replicas of each service.

use endpoints::{PerService, Service};

use crate::harness::{Harness, options};

#[tokio::test]
async fn two_replicas_of_each_service_charge_once() -> anyhow::Result<()> {
    let mut options = options();
    options.replicas = PerService::from_fn(|service| if service == Service::Psp { 1 } else { 2 });
    let harness = Harness::start(options).await?;
    let mut orders = harness.place_many(40).await?;
    // The relay, consumer, charger and sender of one replica are killed; those of the other take over.
    for victim in ["order-2", "payment-2", "fulfilment-2", "receipt-2"] {
        harness.system.kill(victim).await?;
    }
    orders.extend(harness.place_many(40).await?);
    harness.expect_shipped_once(&orders).await?;
    harness.stop().await
}
