//! Assembles the fulfilment service.

use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use application::{Application, Builder};
use outbox::Wake;
use service_kit::migration;
use sqlx::Connection as _;

use crate::config::{Config, Migration};
use crate::consumer::ShipPaid;
use crate::store::stock;
use crate::timeline;

/// The demo's stock: SKU-1 to SKU-99, more of each than a demo sells.
const DEMO_SKUS: std::ops::RangeInclusive<u32> = 1..=99;
const DEMO_AVAILABLE: i64 = 1_000_000_000;

pub async fn build(config: Config) -> anyhow::Result<Application> {
    let wake = Wake::default();
    let ship = ShipPaid {
        wake: wake.clone(),
        has_all_decisions: AtomicBool::default(),
    };
    let group = config.application.kafka_group.clone();
    let builder = Builder::new("fulfilment", config.application)?;
    let pool = builder.pool().clone();
    let builder = builder
        .operator_routes(operators::timeline(pool, timeline::Reader { group }))
        .outbox(wake)?
        .consumer(ship)?;
    builder.build().await
}

pub async fn migrate(migration: Migration) -> anyhow::Result<()> {
    let folders = vec![
        sqlx::migrate!("../../migrations/outbox"),
        sqlx::migrate!("../../migrations/inbox"),
        sqlx::migrate!("../../migrations/operators"),
        sqlx::migrate!("../../migrations/fulfilment"),
    ];
    let mut connection = migration::run(&migration.database_url, folders).await?;
    if migration.demo_data {
        for number in DEMO_SKUS {
            stock::add(&mut connection, &format!("SKU-{number}"), DEMO_AVAILABLE)
                .await
                .context("adding the demo stock")?;
        }
    }
    connection.close().await.context("closing the connection")
}
