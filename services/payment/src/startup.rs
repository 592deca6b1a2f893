//! Puts the service together, and runs it until it is told to stop.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context as _;
use api_keys::Authenticator;
use axum::Router;
use inbox::Consumer;
use leases::{Done, Worker};
use outbox::{Relay, Wake};
use service_kit::{Backoff, Gauges, Reaper, Workers, crash, database, http, migration};
use sqlx::{Connection as _, PgConnection, PgPool};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::charger::{self, Answered, Charger, Queue};
use crate::config::{Config, Migration};
use crate::consumer::FollowOrders;
use crate::direct::{self, DirectCharges};
use crate::reconciler::Reconciler;
use crate::recorder::Recorder;
use crate::routes::Services;
use crate::waiting::Waiting;
use crate::{gauge, psp, routes};

const NAME: &str = "payment";

pub struct Application {
    listener: TcpListener,
    router: Router,
    relay: Relay,
    consumer: Consumer<FollowOrders>,
    chargers: [Worker<Charger>; 3],
    recorder: Recorder,
    answers: mpsc::Receiver<Done<Answered>>,
    reconciler: Reconciler,
    reaper: Reaper,
    gauges: Gauges,
    closing: CancellationToken,
}

/// What the parts share: the store, the provider, and how they wake each other.
struct Shared {
    pool: PgPool,
    psp: psp::Client,
    wake: Wake,
    waiting: Waiting,
    due: Arc<Notify>,
    unknown_due: Arc<Notify>,
    refund_due: Arc<Notify>,
    closing: CancellationToken,
}

impl Application {
    pub async fn build(config: Config) -> anyhow::Result<Self> {
        config.check()?;
        config.retention.check()?;
        let shared = Shared::new(&config)?;
        let pool = shared.pool.clone();
        let (sender, answers) = mpsc::channel(config.psp_in_flight_max);
        let (brokers, topic) = (&config.kafka.kafka_brokers, &config.kafka.kafka_topic);
        let mut relay = outbox::Settings::new(brokers, topic);
        relay.reached = crash::point;
        let mut inbox = inbox::Settings::new(brokers, topic, &config.kafka_group);
        inbox.fetch_wait_max_ms = config.kafka.kafka_fetch_wait_max_ms;
        inbox.tries_max = config.kafka.message_tries_max;
        inbox.reached = crash::point;
        let consumer = Consumer::new(inbox, pool.clone(), shared.follow_orders())?;
        let reconciler = shared.reconciler(&config);
        let routes = routes::table(shared.services(&config, reconciler.clone()))
            .merge(consumer.routes())
            .merge(outbox::routes(pool.clone(), shared.wake.clone()));
        let reaper = Reaper::new(config.retention.reaper_interval())
            .sweep("outbox", outbox::sweep(&pool, &config.retention))
            .sweep("ledger", inbox::sweep(&pool, &config.retention))
            .sweep("keys", idempotency::sweep(&pool));
        let gauges = Gauges::default()
            .read("outbox", outbox::gauge(&pool))
            .read("parked", inbox::gauge(&pool))
            .read("payments", gauge::gauge(&pool));
        let listener = TcpListener::bind(config.listen)
            .await
            .with_context(|| format!("binding {}", config.listen))?;
        let database = (*pool.connect_options()).clone();
        Ok(Self {
            listener,
            relay: Relay::new(relay, database, shared.wake.clone())?,
            router: http::finish(routes, pool),
            consumer,
            chargers: Queue::ALL.map(|queue| shared.charger(&config, queue, &sender)),
            recorder: shared.recorder(&config),
            answers,
            reconciler,
            reaper,
            gauges,
            closing: shared.closing,
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
        workers.spawn("recorder", self.recorder.run(self.answers));
        workers.spawn("relay", self.relay.run(workers.shutdown()));
        workers.spawn("reaper", self.reaper.run(workers.shutdown()));
        workers.spawn("gauges", self.gauges.run(workers.shutdown()));
        let (shutdown, closing) = (workers.shutdown(), self.closing);
        workers.spawn("closing", async move {
            shutdown.cancelled().await;
            closing.cancel();
            Ok(())
        });
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
    migration::run(&migration.database_url, migrators).await?;
    if migration.demo_data {
        let mut connection = PgConnection::connect(&migration.database_url).await?;
        api_keys::demo::add_principals(&mut connection)
            .await
            .context("adding the demo principals")?;
    }
    Ok(())
}

impl Shared {
    fn new(config: &Config) -> anyhow::Result<Self> {
        let psp_timeout = Duration::from_millis(config.psp_timeout_ms);
        let [due, unknown_due, refund_due] = [(); 3].map(|()| Arc::new(Notify::new()));
        Ok(Self {
            pool: database::connect_lazy(&config.database, NAME)?,
            psp: psp::Client::new(&config.psp_url, psp_timeout)?,
            wake: Wake::default(),
            waiting: Waiting::default(),
            due,
            unknown_due,
            refund_due,
            closing: CancellationToken::new(),
        })
    }

    fn charger(
        &self,
        config: &Config,
        queue: Queue,
        answers: &mpsc::Sender<Done<Answered>>,
    ) -> Worker<Charger> {
        let due = match queue {
            Queue::Fresh => &self.due,
            Queue::Unknown => &self.unknown_due,
            Queue::Refunds => &self.refund_due,
        };
        let charger = Charger {
            queue,
            pool: self.pool.clone(),
            psp: self.psp.clone(),
            resend_max: config.resend_max(),
        };
        let settings = leases::Settings {
            lease: config.lease(),
            poll: Duration::from_millis(config.charger_poll_ms),
            in_flight_max: config.psp_in_flight_max,
            batch_max: charger::LEASE_BATCH_MAX,
        };
        Worker::new(charger, settings, due.clone(), answers.clone())
    }

    fn recorder(&self, config: &Config) -> Recorder {
        Recorder {
            pool: self.pool.clone(),
            backoff: Backoff {
                base: Duration::from_millis(config.retry_base_ms),
                max: Duration::from_millis(config.retry_max_ms),
            },
            wake: self.wake.clone(),
            refund_due: self.refund_due.clone(),
            waiting: self.waiting.clone(),
        }
    }

    fn reconciler(&self, config: &Config) -> Reconciler {
        Reconciler {
            pool: self.pool.clone(),
            psp: self.psp.clone(),
            interval: Duration::from_secs(config.reconcile_interval_seconds),
            grace: Duration::from_secs(config.reconcile_grace_seconds),
            orphan_grace: Duration::from_secs(config.reconcile_orphan_grace_seconds),
            lookback: Duration::from_secs(config.reconcile_lookback_seconds),
            wake: self.wake.clone(),
            refund_due: self.refund_due.clone(),
            waiting: self.waiting.clone(),
        }
    }

    fn follow_orders(&self) -> FollowOrders {
        FollowOrders {
            due: self.due.clone(),
            unknown_due: self.unknown_due.clone(),
            refund_due: self.refund_due.clone(),
            wake: self.wake.clone(),
            rejected: AtomicBool::new(false),
        }
    }

    fn services(&self, config: &Config, reconciler: Reconciler) -> Services {
        Services {
            pool: self.pool.clone(),
            reconciler,
            authenticator: Authenticator::new(self.pool.clone()),
            direct_charges: DirectCharges {
                pool: self.pool.clone(),
                due: self.due.clone(),
                waiting: self.waiting.clone(),
                key_window_seconds: config.key_window_seconds,
                wait: Duration::from_millis(config.direct_wait_ms),
                poll: direct::POLL_DEFAULT,
                closing: self.closing.clone(),
            },
        }
    }
}
