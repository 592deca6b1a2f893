//! Puts the service together, and runs it until it is told to stop.

use anyhow::Context as _;
use axum::Router;
use inbox::Consumer;
use outbox::{Relay, Wake};
use service_kit::{Gauges, Reaper, Workers, crash, database, http, migration};
use sqlx::{Connection as _, PgConnection};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Migration};
use crate::consumer::ShipPaid;
use crate::routes;
use crate::store::stock;

const NAME: &str = "fulfilment";

/// The demo's shelves: SKU-1 to SKU-99, more of each than any demo sells.
const DEMO_SKUS: std::ops::RangeInclusive<u32> = 1..=99;
const DEMO_AVAILABLE: i64 = 1_000_000_000;

pub struct Application {
    listener: TcpListener,
    router: Router,
    relay: Relay,
    consumer: Consumer<ShipPaid>,
    reaper: Reaper,
    gauges: Gauges,
}

impl Application {
    pub async fn build(config: Config) -> anyhow::Result<Self> {
        config.retention.check()?;
        let pool = database::connect_lazy(&config.database, NAME)?;
        let wake = Wake::default();
        let (brokers, topic) = (&config.kafka.kafka_brokers, &config.kafka.kafka_topic);
        let mut relay = outbox::Settings::new(brokers, topic);
        relay.reached = crash::point;
        let mut inbox = inbox::Settings::new(brokers, topic, &config.kafka_group);
        inbox.fetch_wait_max_ms = config.kafka.kafka_fetch_wait_max_ms;
        inbox.session_max_ms = config.kafka.kafka_session_timeout_ms;
        inbox.tries_max = config.kafka.message_tries_max;
        inbox.reached = crash::point;
        let ship = ShipPaid { wake: wake.clone() };
        let consumer = Consumer::new(inbox, pool.clone(), ship)?;
        let routes = routes::table()
            .merge(consumer.routes())
            .merge(outbox::routes(pool.clone(), wake.clone()));
        let reaper = Reaper::new(config.retention.reaper_interval())
            .sweep("outbox", outbox::sweep(&pool, &config.retention))
            .sweep("ledger", inbox::sweep(&pool, &config.retention));
        let gauges = Gauges::default()
            .read("outbox", outbox::gauge(&pool))
            .read("parked", inbox::gauge(&pool));
        let listener = TcpListener::bind(config.listen)
            .await
            .with_context(|| format!("binding {}", config.listen))?;
        Ok(Self {
            listener,
            relay: Relay::new(relay, (*pool.connect_options()).clone(), wake)?,
            router: http::finish(routes, pool),
            consumer,
            reaper,
            gauges,
        })
    }

    /// The port that was bound, for whoever asked for any.
    pub fn port(&self) -> anyhow::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    pub async fn run_until(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        tracing::info!(address = %self.listener.local_addr()?, "fulfilment service is up");
        let mut workers = Workers::new(shutdown);
        workers.spawn("consumer", self.consumer.run(workers.shutdown()));
        workers.spawn("relay", self.relay.run(workers.shutdown()));
        workers.spawn("reaper", self.reaper.run(workers.shutdown()));
        workers.spawn("gauges", self.gauges.run(workers.shutdown()));
        workers.spawn(
            "http",
            http::serve(self.listener, self.router, workers.shutdown()),
        );
        workers.run().await
    }
}

pub async fn migrate(migration: Migration) -> anyhow::Result<()> {
    let migrators = vec![
        sqlx::migrate!("../../migrations/common"),
        sqlx::migrate!("../../migrations/fulfilment"),
    ];
    migration::run(&migration.database_url, migrators).await?;
    if migration.demo_data {
        let mut connection = PgConnection::connect(&migration.database_url).await?;
        for number in DEMO_SKUS {
            stock::add(&mut connection, &format!("SKU-{number}"), DEMO_AVAILABLE)
                .await
                .context("putting the demo's stock on the shelves")?;
        }
    }
    Ok(())
}
