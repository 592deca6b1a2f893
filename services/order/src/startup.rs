//! Puts the service together, and runs it until it is told to stop.

use anyhow::Context as _;
use api_keys::Authenticator;
use axum::Router;
use inbox::Consumer;
use outbox::{Relay, Wake};
use service_kit::{Gauges, Reaper, Workers, crash, database, http, migration};
use sqlx::{Connection as _, PgConnection};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Migration};
use crate::consumer::FollowOrders;
use crate::intake::{self, Intake, Writer};
use crate::routes::{self, Services};

const NAME: &str = "order";

pub struct Application {
    listener: TcpListener,
    router: Router,
    writers: Vec<Writer>,
    relay: Relay,
    consumer: Consumer<FollowOrders>,
    reaper: Reaper,
    gauges: Gauges,
}

impl Application {
    pub async fn build(config: Config) -> anyhow::Result<Self> {
        config.retention.check()?;
        let pool = database::connect_lazy(&config.database, NAME)?;
        let wake = Wake::default();
        let intake = intake::Settings {
            queue_max: config.intake_queue_max,
            batch_max: config.intake_batch_max,
            writers: config.intake_writers,
            window_seconds: config.key_window_seconds,
        };
        let (intake, writers) = Intake::new(&intake, &pool, &wake);
        let services = Services {
            pool: pool.clone(),
            authenticator: Authenticator::new(pool.clone()),
            intake,
            wake: wake.clone(),
            key_window_seconds: config.key_window_seconds,
        };
        let mut relay =
            outbox::Settings::new(&config.kafka.kafka_brokers, &config.kafka.kafka_topic);
        relay.reached = crash::point;
        let (brokers, topic) = (&config.kafka.kafka_brokers, &config.kafka.kafka_topic);
        let mut inbox = inbox::Settings::new(brokers, topic, &config.kafka_group);
        inbox.fetch_wait_max_ms = config.kafka.kafka_fetch_wait_max_ms;
        inbox.session_max_ms = config.kafka.kafka_session_timeout_ms;
        inbox.tries_max = config.kafka.message_tries_max;
        inbox.reached = crash::point;
        let consumer = Consumer::new(inbox, pool.clone(), FollowOrders)?;
        let routes = routes::table(services)
            .merge(consumer.routes())
            .merge(outbox::routes(pool.clone(), wake.clone()));
        let reaper = Reaper::new(config.retention.reaper_interval())
            .sweep("outbox", outbox::sweep(&pool, &config.retention))
            .sweep("ledger", inbox::sweep(&pool, &config.retention))
            .sweep("keys", idempotency::sweep(&pool));
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
            writers,
            reaper,
            gauges,
        })
    }

    /// The port that was bound, for whoever asked for any.
    pub fn port(&self) -> anyhow::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    pub async fn run_until(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        tracing::info!(address = %self.listener.local_addr()?, "order service is up");
        let mut workers = Workers::new(shutdown);
        for writer in self.writers {
            workers.spawn("intake", writer.run());
        }
        workers.spawn("relay", self.relay.run(workers.shutdown()));
        workers.spawn("consumer", self.consumer.run(workers.shutdown()));
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
        sqlx::migrate!("../../migrations/order"),
    ];
    migration::run(&migration.database_url, migrators).await?;
    if migration.demo_data {
        let mut connection = PgConnection::connect(&migration.database_url).await?;
        api_keys::demo::add_principals(&mut connection)
            .await
            .context("adding the demo principals")?;
    }
    Ok(())
}
