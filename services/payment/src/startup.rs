//! Assembles the payment service.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api_keys::Authenticator;
use application::{Application, Builder};
use leases::{Done, Starter, Worker};
use outbox::Wake;
use service_kit::{Backoff, FairShare, UNPROTECTED, migration};
use sqlx::{Connection as _, PgPool};
use telemetry::metric;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::charger::{self, Answered, Charger, ChargerQueues, Queue};
use crate::config::{Config, Migration};
use crate::consumer::PayOrders;
use crate::direct::{self, DirectCharges};
use crate::provider::Provider;
use crate::queue_keeper::{QueueKeeper, report_waits_in_memory};
use crate::reconciler::{self, Reconciler};
use crate::recorder::Recorder;
use crate::routes::Services;
use crate::waiting::Waiting;
use crate::{gauge, psp, routes, timeline};

pub async fn build(config: Config) -> anyhow::Result<Application> {
    config.check()?;
    // An alert watches it: it must exist before the first such call.
    metrics::counter!(metric::PSP_CALLS, "call" => "charge", "outcome" => "not_accepted")
        .increment(0);
    let builder = Builder::new("payment", config.application.clone())?;
    let pool = builder.pool().clone();
    let shared = Shared::new(&config, pool.clone())?;
    let (sender, answers) = mpsc::channel(config.psp_in_flight_max);
    let recorder = shared.recorder(&config);
    let reconciler = shared.reconciler(&config);
    let services = shared.services(&config, reconciler.clone());
    let group = config.application.kafka_group.clone();
    let reader = timeline::Reader { group };
    let retention = Duration::from_secs(config.reconcile_report_retention_seconds);
    let chargers = Queue::ALL.map(|queue| shared.charger(&config, queue, &sender));
    let [fresh, ..] = &chargers;
    let starter = Starter::of(fresh);
    let mut builder = builder
        .outbox(shared.wake.clone())?
        .consumer(shared.pay_orders(&config, Starter::of(fresh)))?
        .sweep("expired idempotency keys", idempotency::sweep(&pool))
        .sweep(
            "old reconciliation reports",
            reconciler::sweep(&pool, retention),
        )
        .gauge("open payments", gauge::gauge(&pool))
        .routes(routes::table(services.clone()))
        .operator_routes(routes::operator_table(services))
        .operator_routes(operators::timeline(pool.clone(), reader))
        .worker("reconciler", |shutdown| reconciler.run(shutdown))
        // The recorder ends after the chargers, which own the other end of the channel.
        .worker("recorder", |_| recorder.run(answers));
    let pressure = builder.pressure().clone();
    builder = if UNPROTECTED {
        builder.worker("queue keeper", |shutdown| {
            report_waits_in_memory(starter, pressure, shutdown)
        })
    } else {
        let keeper = QueueKeeper::new(pool, shared.queues.clone(), pressure);
        builder.worker("queue keeper", |shutdown| keeper.run(shutdown))
    };
    for charger in chargers {
        builder = builder.worker("charger", |shutdown| charger.run(shutdown));
    }
    let closing = shared.closing;
    builder = builder.worker("direct charge shutdown", |shutdown| async move {
        shutdown.cancelled().await;
        closing.cancel();
        Ok(())
    });
    builder.build().await
}

pub async fn migrate(migration: Migration) -> anyhow::Result<()> {
    let folders = vec![
        sqlx::migrate!("../../migrations/outbox"),
        sqlx::migrate!("../../migrations/inbox"),
        sqlx::migrate!("../../migrations/operators"),
        sqlx::migrate!("../../migrations/idempotency"),
        sqlx::migrate!("../../migrations/api-keys"),
        sqlx::migrate!("../../migrations/payment"),
    ];
    let mut connection = migration::run(&migration.database_url, folders).await?;
    if migration.demo_data {
        api_keys::demo::add_principals(&mut connection)
            .await
            .context("adding the demo principals")?;
    }
    connection.close().await.context("closing the connection")
}

/// State that the workers and routes share: the store, the provider, and the handles that wake
/// workers.
struct Shared {
    pool: PgPool,
    provider: Arc<dyn Provider>,
    wake: Wake,
    waiting: Waiting,
    queues: Arc<ChargerQueues>,
    closing: CancellationToken,
}

impl Shared {
    fn new(config: &Config, pool: PgPool) -> anyhow::Result<Self> {
        let psp_timeout = Duration::from_millis(config.psp_timeout_ms);
        let poll = Duration::from_millis(config.charger_poll_ms);
        Ok(Self {
            pool,
            provider: Arc::new(psp::Client::new(&config.psp_url, psp_timeout)?),
            wake: Wake::default(),
            waiting: Waiting::default(),
            queues: Arc::new(ChargerQueues::new(poll)),
            closing: CancellationToken::new(),
        })
    }

    fn charger(
        &self,
        config: &Config,
        queue: Queue,
        answers: &mpsc::Sender<Done<Answered>>,
    ) -> Worker<Charger> {
        let charger = Charger {
            queue,
            queues: self.queues.clone(),
            pool: self.pool.clone(),
            provider: self.provider.clone(),
            limits: config.provider_limits(),
        };
        let settings = leases::Settings {
            lease: config.lease(),
            poll: Duration::from_millis(config.charger_poll_ms),
            in_flight_max: config.psp_in_flight_max,
            batch_max: charger::LEASE_BATCH_MAX,
            store_wait_max: config.lease_wait_max,
        };
        let queues = self.queues.of(queue).clone();
        Worker::shared(charger, settings, queues, answers.clone())
    }

    fn recorder(&self, config: &Config) -> Recorder {
        Recorder {
            pool: self.pool.clone(),
            backoff: Backoff {
                base: Duration::from_millis(config.retry_base_ms),
                max: Duration::from_millis(config.retry_max_ms),
            },
            store_wait_max: config.record_wait_max,
            wake: self.wake.clone(),
            queues: self.queues.clone(),
            waiting: self.waiting.clone(),
        }
    }

    fn reconciler(&self, config: &Config) -> Reconciler {
        Reconciler {
            pool: self.pool.clone(),
            provider: self.provider.clone(),
            interval: Duration::from_secs(config.reconcile_interval_seconds),
            grace: Duration::from_secs(config.reconcile_grace_seconds),
            refunds_max: config.reconcile_refunds_max,
            walk_interval: Duration::from_secs(config.reconcile_walk_interval_seconds),
            lookback: Duration::from_secs(config.reconcile_lookback_seconds),
            page_wait_max: reconciler::PAGE_WAIT_MAX,
            wake: self.wake.clone(),
            queues: self.queues.clone(),
            waiting: self.waiting.clone(),
        }
    }

    fn pay_orders(&self, config: &Config, starter: Starter<Charger>) -> PayOrders {
        PayOrders {
            starter,
            queues: self.queues.clone(),
            wake: self.wake.clone(),
            limits: config.provider_limits(),
        }
    }

    fn services(&self, config: &Config, reconciler: Reconciler) -> Services {
        Services {
            pool: self.pool.clone(),
            reconciler,
            authenticator: Authenticator::new(self.pool.clone()),
            direct_charges: DirectCharges {
                pool: self.pool.clone(),
                queues: self.queues.clone(),
                waiting: self.waiting.clone(),
                waiters: FairShare::new(config.direct_waiters_max),
                key_window_seconds: config.idempotency.key_window_seconds,
                wait: Duration::from_millis(config.direct_wait_ms),
                poll: direct::POLL_DEFAULT,
                closing: self.closing.clone(),
            },
        }
    }
}
