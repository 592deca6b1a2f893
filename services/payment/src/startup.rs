//! Puts the service together, and runs it until it is told to stop.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api_keys::Authenticator;
use axum::Router;
use inbox::Consumer;
use outbox::{Relay, Wake};
use service_kit::{Backoff, Workers, crash, database, http, migration};
use sqlx::{Connection as _, PgConnection, PgPool};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::charger::{Charger, Work};
use crate::config::{Config, Migration};
use crate::consumer::FollowOrders;
use crate::direct::{self, Desk};
use crate::reconciler::Reconciler;
use crate::recorder::Recorder;
use crate::routes::Services;
use crate::waiting::Waiting;
use crate::{psp, routes};

const NAME: &str = "payment";
/// Most expired keys deleted by one statement: short locks, short transactions.
const REAPER_BATCH_MAX: i64 = 1_000;

pub struct Application {
    listener: TcpListener,
    router: Router,
    pool: PgPool,
    relay: Relay,
    consumer: Consumer<FollowOrders>,
    chargers: [Charger; 3],
    recorder: Recorder,
    reconciler: Reconciler,
    reaper_interval: Duration,
    closing: CancellationToken,
}

impl Application {
    pub async fn build(config: Config) -> anyhow::Result<Self> {
        config.check()?;
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
        };
        let closing = CancellationToken::new();
        let services = Services {
            pool: pool.clone(),
            reconciler: reconciler.clone(),
            authenticator: Authenticator::new(pool.clone()),
            desk: Desk {
                pool: pool.clone(),
                due,
                waiting,
                key_window_seconds: config.key_window_seconds,
                wait: Duration::from_millis(config.direct_wait_ms),
                poll: direct::POLL_DEFAULT,
                closing: closing.clone(),
            },
        };
        let (brokers, topic) = (&config.kafka.kafka_brokers, &config.kafka.kafka_topic);
        let mut relay = outbox::Settings::new(brokers, topic);
        relay.reached = crash::point;
        let mut inbox = inbox::Settings::new(brokers, topic, &config.kafka_group);
        inbox.fetch_wait_max_ms = config.kafka.kafka_fetch_wait_max_ms;
        inbox.reached = crash::point;
        let listener = TcpListener::bind(config.listen)
            .await
            .with_context(|| format!("binding {}", config.listen))?;
        Ok(Self {
            listener,
            router: http::finish(routes::table(services), pool.clone()),
            relay: Relay::new(relay, (*pool.connect_options()).clone(), wake)?,
            consumer: Consumer::new(inbox, pool.clone(), follow)?,
            pool,
            chargers,
            recorder,
            reconciler,
            reaper_interval: Duration::from_millis(config.reaper_interval_ms),
            closing,
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
        let reap = reap_keys(self.pool, self.reaper_interval, workers.shutdown());
        workers.spawn("reaper", reap);
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

/// Deletes expired idempotency keys, a bounded batch at a time.
async fn reap_keys(
    pool: PgPool,
    interval: Duration,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = shutdown.cancelled() => return Ok(()),
        }
        // A failure is no reason to stop: the records wait, and the next round finds them.
        if let Err(error) = reap_all(&pool).await {
            tracing::warn!(%error, "reaping expired keys failed");
        }
    }
}

async fn reap_all(pool: &PgPool) -> sqlx::Result<()> {
    loop {
        let mut connection = pool.acquire().await?;
        let reaped = idempotency::store::reap(&mut connection, REAPER_BATCH_MAX).await?;
        if reaped < REAPER_BATCH_MAX as u64 {
            return Ok(());
        }
    }
}
