//! Assembles the fulfilment service.

use anyhow::Context as _;
use application::Builder;
use outbox::Wake;
use service_kit::migration;
use sqlx::Connection as _;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Migration};
use crate::consumer::ShipPaid;
use crate::store::stock;

/// The demo's stock: SKU-1 to SKU-99, more of each than a demo sells.
const DEMO_SKUS: std::ops::RangeInclusive<u32> = 1..=99;
const DEMO_AVAILABLE: i64 = 1_000_000_000;

pub struct Application(application::Application);

impl Application {
    pub async fn build(config: Config) -> anyhow::Result<Self> {
        let wake = Wake::default();
        let ship = ShipPaid { wake: wake.clone() };
        let builder = Builder::new("fulfilment", config.application)?
            .outbox(wake)?
            .consumer(ship)?;
        Ok(Self(builder.build().await?))
    }

    pub fn port(&self) -> anyhow::Result<u16> {
        self.0.port()
    }

    pub async fn run_until(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        self.0.run_until(shutdown).await
    }
}

pub async fn migrate(migration: Migration) -> anyhow::Result<()> {
    let folders = vec![
        sqlx::migrate!("../../migrations/outbox"),
        sqlx::migrate!("../../migrations/inbox"),
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
