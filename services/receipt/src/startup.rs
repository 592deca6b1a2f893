//! Puts the service together, and runs it until it is told to stop.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use inbox::Consumer;
use leases::{Done, Worker};
use service_kit::{Backoff, Gauges, Reaper, Workers, crash, database, http, migration};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Migration};
use crate::consumer::LogReceipts;
use crate::recorder::Recorder;
use crate::sender::{Sender, Tried};
use crate::{routes, smtp};

const NAME: &str = "receipt";

pub struct Application {
    listener: TcpListener,
    router: Router,
    consumer: Consumer<LogReceipts>,
    sender: Worker<Sender>,
    recorder: Recorder,
    tried: mpsc::Receiver<Done<Tried>>,
    reaper: Reaper,
    gauges: Gauges,
}

impl Application {
    pub async fn build(config: Config) -> anyhow::Result<Self> {
        config.check()?;
        config.retention.check()?;
        let (from, recipients) = (config.from_mailbox()?, config.recipients()?);
        let pool = database::connect_lazy(&config.database, NAME)?;
        let due = Arc::new(Notify::new());
        let connections_max = config.smtp.smtp_connections_max;
        let (results, tried) = mpsc::channel(connections_max);
        let sender = Sender {
            pool: pool.clone(),
            smtp: smtp::Client::new(&config.smtp, &from)?,
            from,
        };
        let settings = leases::Settings {
            lease: config.lease(),
            poll: Duration::from_millis(config.sender_poll_ms),
            in_flight_max: connections_max,
            batch_max: connections_max,
        };
        let sender = Worker::new(sender, settings, due.clone(), results);
        let recorder = Recorder {
            pool: pool.clone(),
            backoff: Backoff {
                base: Duration::from_millis(config.retry_base_ms),
                max: Duration::from_millis(config.retry_max_ms),
            },
        };
        let (brokers, topic) = (&config.kafka.kafka_brokers, &config.kafka.kafka_topic);
        let mut inbox = inbox::Settings::new(brokers, topic, &config.kafka_group);
        inbox.fetch_wait_max_ms = config.kafka.kafka_fetch_wait_max_ms;
        inbox.tries_max = config.kafka.message_tries_max;
        inbox.reached = crash::point;
        let log = LogReceipts { recipients, due };
        let consumer = Consumer::new(inbox, pool.clone(), log)?;
        let routes = routes::table(pool.clone()).merge(consumer.routes());
        let reaper = Reaper::new(config.retention.reaper_interval())
            .sweep("ledger", inbox::sweep(&pool, &config.retention));
        let gauges = Gauges::default().read("parked", inbox::gauge(&pool));
        let listener = TcpListener::bind(config.listen)
            .await
            .with_context(|| format!("binding {}", config.listen))?;
        Ok(Self {
            listener,
            router: http::finish(routes, pool),
            consumer,
            sender,
            recorder,
            tried,
            reaper,
            gauges,
        })
    }

    /// The port that was bound, for whoever asked for any.
    pub fn port(&self) -> anyhow::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    pub async fn run_until(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        tracing::info!(address = %self.listener.local_addr()?, "receipt service is up");
        let mut workers = Workers::new(shutdown);
        workers.spawn("consumer", self.consumer.run(workers.shutdown()));
        workers.spawn("sender", self.sender.run(workers.shutdown()));
        workers.spawn("recorder", self.recorder.run(self.tried));
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
        sqlx::migrate!("../../migrations/receipt"),
    ];
    migration::run(&migration.database_url, migrators).await
}
