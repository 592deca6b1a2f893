//! Kafka loses everything it had.

use std::time::Duration;

use lab::broker::Kafka;
use lab::service::Service;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{World, options};

/// Those that announce something.
const PUBLISHERS: [Service; 3] = [Service::Order, Service::Payment, Service::Fulfilment];
const SETTLED_WITHIN: Duration = Duration::from_secs(120);

/// Has every service publish again what it announced within the last hour; returns how much.
async fn republish(world: &World) -> anyhow::Result<i64> {
    let since = json!({ "since": hour_ago() });
    let mut events = 0;
    for service in PUBLISHERS {
        let url = format!("{}/admin/outbox/republish", world.system.url(service));
        let answer = reqwest::Client::new().post(url).json(&since).send().await?;
        let answer: Value = serde_json::from_str(&answer.error_for_status()?.text().await?)?;
        events += answer["republished"].as_i64().unwrap_or_default();
    }
    Ok(events)
}

fn hour_ago() -> String {
    (chrono::Utc::now() - chrono::TimeDelta::hours(1)).to_rfc3339()
}

async fn published(world: &World) -> anyhow::Result<i64> {
    let count = "select count(*) from outbox where published_at is not null";
    Ok(sqlx::query_scalar(count)
        .fetch_one(&world.databases.order)
        .await?)
}

#[tokio::test]
async fn orders_on_their_way_when_the_broker_loses_its_data_end_once_after_republication()
-> anyhow::Result<()> {
    let mut options = options();
    options.kafka = Kafka::Apache;
    let world = World::start(options).await?;
    let before = world.place_many(10).await?;
    world.expect_shipped_once(&before).await?;

    // In mid-flight: published, but nobody has read it yet; and half-way, with payment down.
    world
        .system
        .stop_service(Service::Fulfilment.name())
        .await?;
    let paid = world.place_many(10).await?;
    for order in &paid {
        let paid = Duration::from_secs(30);
        world.client.wait_for_status(*order, "paid", paid).await?;
    }
    world.system.stop_service(Service::Payment.name()).await?;
    let placed = world.place_many(10).await?;
    let wait = async {
        while published(&world).await? < 30 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await??;
    world.system.lose_broker_data().await?;
    for service in [Service::Payment, Service::Fulfilment] {
        world.system.start_service(service.name()).await?;
        let ready = Duration::from_secs(60);
        world.system.wait_ready(service.name(), ready).await?;
    }
    let after = world.place_many(5).await?;

    assert!(
        republish(&world).await? >= 30,
        "there was nothing to send again"
    );
    let all: Vec<Uuid> = [before, paid, placed, after].concat();
    for order in &all {
        world
            .client
            .wait_for_status(*order, "shipped", SETTLED_WITHIN)
            .await?;
    }
    world.expect_shipped_once(&all).await?;
    // Again, for no reason: nothing more happens.
    republish(&world).await?;
    world.expect_shipped_once(&all).await?;
    world.stop().await
}
