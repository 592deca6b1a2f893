//! The classic incident: the provider takes half a minute, everybody in front of it less, and all of
//! them retry, while a spike of other orders comes in.

use std::time::Duration;

use futures_util::future::try_join_all;
use lab::client::{Client, new_key, order_body};
use lab::gateway::{Gateway, Settings};
use lab::service::Service;
use uuid::Uuid;

use crate::world::{World, options};

const SLOW: usize = 40;
const ORDINARY: usize = 80;
/// As many as the payment service may open by default.
const CONNECTIONS_MAX: i64 = 16;

const IMPATIENT: Settings = Settings {
    timeout: Duration::from_millis(400),
    tries: 3,
};

async fn place(client: &Client, method: &str) -> anyhow::Result<Uuid> {
    let body = order_body(1).replace("pm_card_ok", method);
    client.place(&new_key("slow"), &body).await?.order_id()
}

async fn charged(world: &World, orders: &[Uuid]) -> anyhow::Result<usize> {
    let counts = lab::client::psp::charges_per_order(&world.databases.psp, orders).await?;
    Ok(counts.values().filter(|count| **count > 0).count())
}

#[tokio::test]
async fn a_provider_that_takes_half_a_minute_charges_once_and_holds_nobody_else_up()
-> anyhow::Result<()> {
    let world = World::start(options()).await?;
    let order_url = world.system.url(Service::Order);
    let gateway = Gateway::start(order_url, IMPATIENT).await?;
    let client = Client::new(gateway.url(), "demo-key-acme")?;
    let slow = try_join_all((0..SLOW).map(|_| place(&client, "pm_card_slow"))).await?;
    let ordinary = try_join_all((0..ORDINARY).map(|_| place(&client, "pm_card_ok"))).await?;

    for order in &ordinary {
        let shipped = Duration::from_secs(25);
        world
            .client
            .wait_for_status(*order, "shipped", shipped)
            .await?;
        let (open, in_transaction): (i64, i64) = sqlx::query_as(
            "select count(*), count(*) filter (where state like 'idle in transaction%'
                                               and state_change < now() - interval '1 second')
             from pg_stat_activity
             where datname = current_database() and application_name = 'payment'",
        )
        .fetch_one(&world.databases.payment)
        .await?;
        assert!(open <= CONNECTIONS_MAX + 1, "{open} connections");
        assert_eq!(in_transaction, 0, "nobody holds a transaction meanwhile");
        let ready = reqwest::get(format!("{}/readyz", world.system.url(Service::Payment)));
        assert_eq!(ready.await?.status(), 200);
    }
    // All of them, on every partition, while not one of the slow ones has been answered.
    assert_eq!(
        charged(&world, &slow).await?,
        0,
        "the slow ones are still out"
    );

    let all = [slow, ordinary].concat();
    world.expect_shipped_once(&all).await?;
    let retried: i64 = sqlx::query_scalar("select count(*) from payments where tries > 2")
        .fetch_one(&world.databases.payment)
        .await?;
    assert_eq!(retried, SLOW as i64, "each slow one was asked for again");
    world.stop().await
}
