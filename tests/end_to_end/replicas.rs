//! Two of everything.

use lab::service::{PerService, Service};

use crate::world::{World, options};

#[tokio::test]
async fn two_replicas_of_each_service_publish_consume_and_charge_once() -> anyhow::Result<()> {
    let mut options = options();
    options.replicas = PerService::from_fn(|service| if service == Service::Psp { 1 } else { 2 });
    let world = World::start(options).await?;
    let mut orders = world.place_many(40).await?;
    // The relay, consumer, charger and sender of one replica go; those of the other take over.
    for victim in ["order-2", "payment-2", "fulfilment-2", "receipt-2"] {
        world.system.kill(victim).await?;
    }
    orders.extend(world.place_many(40).await?);
    world.expect_shipped_once(&orders).await?;
    world.stop().await
}
