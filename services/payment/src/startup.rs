//! Puts the service together, and runs it until it is told to stop.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use inbox::Consumer;
use outbox::{Relay, Wake};
use service_kit::{Backoff, Reaper, Workers, crash, database, http, migration};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::charger::{Charger, Work};
use crate::config::{Config, Migration};
use crate::consumer::FollowOrders;
use crate::reconciler::Reconciler;
use crate::recorder::Recorder;
use crate::routes::Services;
use crate::waiting::Waiting;
use crate::{psp, routes};

const NAME: &str = "payment";

pub struct Application {
    listener: TcpListener,
    router: Router,
    relay: Relay,
    consumer: Consumer<FollowOrders>,
    chargers: [Charger; 3],
    recorder: Recorder,
    reconciler: Reconciler,
    reaper: Reaper,
}

impl Application {
    pub async fn build(config: Config) -> anyhow::Result<Self> {
        config.check()?;
        config.retention.check()?;
        let pool = database::connect_lazy(&config.database, NAME)?;
        let wake = Wake::default();
        let waiting = Waiting::default();
        let [due, unknown_due, refund_due] = [(); 3].map(|()| Arc::new(Notify::new()));
        let (sender, receiver) = mpsc::channel(config.psp_in_flight_max);
        let psp_timeout = Duration::from_millis(config.psp_timeout_ms);
        let psp = psp::Client::new(&config.psp_url, psp_timeout)?;
        let charger = |work| Charger {
            work,
            pool: pool.clone(),
            psp: psp.clone(),
            lease: config.lease(),
            resend_max: config.resend_max(),
            poll: Duration::from_millis(config.charger_poll_ms),
            in_flight_max: config.psp_in_flight_max,
            due: match work {
                Work::Fresh => due.clone(),
                Work::Unknown => unknown_due.clone(),
                Work::Refunds => refund_due.clone(),
            },
            answers: sender.clone(),
        };
        let chargers = Work::ALL.map(charger);
        drop(sender);
        let recorder = Recorder {
            pool: pool.clone(),
            backoff: Backoff {
                base: Duration::from_millis(config.retry_base_ms),
                max: Duration::from_millis(config.retry_max_ms),
            },
            wake: wake.clone(),
            refund_due: refund_due.clone(),
            waiting: waiting.clone(),
            answers: receiver,
        };
        let reconciler = Reconciler {
            pool: pool.clone(),
            psp,
            interval: Duration::from_secs(config.reconcile_interval_seconds),
            grace: Duration::from_secs(config.reconcile_grace_seconds),
            lookback: Duration::from_secs(config.reconcile_lookback_seconds),
            wake: wake.clone(),
            refund_due: refund_due.clone(),
            waiting: waiting.clone(),
        };
        let follow = FollowOrders {
            due: due.clone(),
            unknown_due,
            refund_due,
            wake: wake.clone(),
            refused: AtomicBool::new(false),
        };
        let services = Services {
            pool: pool.clone(),
            reconciler: reconciler.clone(),
        };
        let (brokers, topic) = (&config.kafka.kafka_brokers, &config.kafka.kafka_topic);
        let mut relay = outbox::Settings::new(brokers, topic);
        relay.reached = crash::point;
        let mut inbox = inbox::Settings::new(brokers, topic, &config.kafka_group);
        inbox.fetch_wait_max_ms = config.kafka.kafka_fetch_wait_max_ms;
        inbox.tries_max = config.kafka.message_tries_max;
        inbox.reached = crash::point;
        let consumer = Consumer::new(inbox, pool.clone(), follow)?;
        let routes = routes::table(services)
            .merge(consumer.routes())
            .merge(outbox::routes(pool.clone(), wake.clone()));
        let reaper = Reaper::new(config.retention.reaper_interval())
            .sweep("outbox", outbox::sweep(&pool, &config.retention))
            .sweep("ledger", inbox::sweep(&pool, &config.retention));
        let listener = TcpListener::bind(config.listen)
            .await
            .with_context(|| format!("binding {}", config.listen))?;
        Ok(Self {
            listener,
            relay: Relay::new(relay, (*pool.connect_options()).clone(), wake)?,
            router: http::finish(routes, pool),
            consumer,
            reaper,
            chargers,
            recorder,
            reconciler,
        })
    }

    /// The port that was bound, for whoever asked for any.
    pub fn port(&self) -> anyhow::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    pub async fn run_until(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        tracing::info!(address = %self.listener.local_addr()?, "payment service is up");
        let mut workers = Workers::new(shutdown);
        workers.spawn("consumer", self.consumer.run(workers.shutdown()));
        for charger in self.chargers {
            workers.spawn("charger", charger.run(workers.shutdown()));
        }
        workers.spawn("reconciler", self.reconciler.run(workers.shutdown()));
        workers.spawn("recorder", self.recorder.run());
        workers.spawn("relay", self.relay.run(workers.shutdown()));
        workers.spawn("reaper", self.reaper.run(workers.shutdown()));
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
        sqlx::migrate!("../../migrations/payment"),
    ];
    migration::run(&migration.database_url, migrators).await
}
