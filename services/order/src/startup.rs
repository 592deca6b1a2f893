//! Assembles the order service.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api_keys::Authenticator;
use application::{Application, Builder};
use outbox::Wake;
use service_kit::migration;
use sqlx::Connection as _;
use telemetry::metric;

use crate::admission::{Admission, Watcher};
use crate::config::{Config, Migration};
use crate::consumer::FollowOrders;
use crate::intake::{self, Intake};
use crate::routes::{self, Services};
use crate::timeline;

pub async fn build(config: Config) -> anyhow::Result<Application> {
    let intake = intake::Settings {
        queue_max: config.intake_queue_max,
        batch_max: config.intake_batch_max,
        writers: config.intake_writers,
        window_seconds: config.idempotency.key_window_seconds,
    };
    let group = config.application.kafka_group.clone();
    let reader = timeline::Reader {
        group: group.clone(),
        key_window_seconds: config.idempotency.key_window_seconds,
    };
    let builder = Builder::new("order", config.application)?;
    let (pool, wake) = (builder.pool().clone(), Wake::default());
    let (intake, writers) = Intake::new(&intake, &pool, &wake);
    // An alert watches it: it must exist before the first order is shed.
    metrics::counter!(metric::ORDERS_SHED).increment(0);
    let wait_max = Duration::from_secs(config.order_wait_max_seconds);
    let admission = Arc::new(Admission::new(wait_max));
    let pressure = builder.pressure().clone();
    let watcher = Watcher::new(admission.clone(), pressure, &config.pressure_urls)?;
    let services = Services {
        admission: admission.clone(),
        pool: pool.clone(),
        authenticator: Authenticator::new(pool.clone()),
        intake,
        wake: wake.clone(),
        key_window_seconds: config.idempotency.key_window_seconds,
    };
    let follow_orders = FollowOrders {
        reopens_max: config.payment_reopens_max,
        wake: wake.clone(),
        group,
        admission,
    };
    let mut builder = builder
        .outbox(wake)?
        .consumer(follow_orders)?
        .sweep("expired idempotency keys", idempotency::sweep(&pool))
        .worker("admission watcher", |shutdown| watcher.run(shutdown))
        .routes(routes::table(services))
        .operator_routes(operators::timeline(pool, reader));
    for writer in writers {
        builder = builder.worker("intake writer", |_| writer.run());
    }
    builder.build().await
}

pub async fn migrate(migration: Migration) -> anyhow::Result<()> {
    let folders = vec![
        sqlx::migrate!("../../migrations/outbox"),
        sqlx::migrate!("../../migrations/inbox"),
        sqlx::migrate!("../../migrations/operators"),
        sqlx::migrate!("../../migrations/idempotency"),
        sqlx::migrate!("../../migrations/api-keys"),
        sqlx::migrate!("../../migrations/order"),
    ];
    let mut connection = migration::run(&migration.database_url, folders).await?;
    if migration.demo_data {
        api_keys::demo::add_principals(&mut connection)
            .await
            .context("adding the demo principals")?;
    }
    connection.close().await.context("closing the connection")
}
