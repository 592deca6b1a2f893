//! The system under measurement, with connections to the databases that show the outcome of the orders.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use endpoints::{PerService, Service, database};
use sqlx::PgPool;
use testkit::broker::Kafka;
use testkit::system::{Postgres, System, SystemOptions};

use crate::generator::drive::{self, Arrivals, DriveResult, Plan, StopAfter};
use crate::generator::request::Mix;
use crate::generator::tally::Accepted;
use crate::measure::shipping::{self, Reached};

const READY_WITHIN: Duration = Duration::from_secs(30);
/// A dead charger's attempts are taken over after this time: as short as the default PSP_TIMEOUT_MS allows. It does not
/// matter while no process dies. The timeout itself stays: a busy provider must not count as a lost response.
pub(crate) const PAYMENT_TIMES: [(&str, &str); 1] = [("LEASE_MS", "11000")];
/// The mix of `lab load`: each run also has retries, duplicates and hang-ups.
pub(crate) const MIX: Mix = Mix {
    retry_share: 0.05,
    duplicate_share: 0.05,
    hangup_share: 0.02,
};
/// For latencies: a client that hangs up repeats its order half a second later, which the system does not cause.
pub(crate) const MIX_WITHOUT_HANGUPS: Mix = Mix {
    hangup_share: 0.0,
    ..MIX
};
/// For systems without keys: they would store a repeated order twice.
pub(super) const MIX_WITHOUT_REPEATS: Mix = Mix {
    retry_share: 0.0,
    duplicate_share: 0.0,
    hangup_share: 0.0,
};
/// The services after intake.
const CONSUMERS: [Service; 3] = [Service::Payment, Service::Fulfilment, Service::Receipt];

/// The default of order.
const WAIT_MAX_SECONDS: &str = "30";

/// Where a system runs.
pub(crate) struct Place {
    pub(crate) kafka: Kafka,
    pub(crate) postgres: Postgres,
    pub(crate) prefix: String,
    /// See [`SystemOptions::bin_dirs`].
    pub(crate) bin_dirs: PerService<Option<PathBuf>>,
    /// Extra environment of every service.
    pub(crate) env: Vec<(String, String)>,
    /// Print no progress while it starts.
    pub(crate) quiet: bool,
}

pub(crate) struct Rig {
    system: System,
    pub(crate) orders: PgPool,
    receipts: PgPool,
    psp: PgPool,
    /// Every order that was accepted in any run.
    accepted: Mutex<Vec<Accepted>>,
}

/// Orders that were sent and have all arrived.
pub(crate) struct Run {
    pub(crate) driven: DriveResult,
    pub(crate) shipped: Reached,
    pub(crate) mailed: Reached,
}

impl Rig {
    pub(crate) async fn start(place: Place) -> anyhow::Result<Self> {
        let mut env = PerService::from_fn(|_| place.env.clone());
        for (name, value) in PAYMENT_TIMES {
            env.payment.push((name.to_owned(), value.to_owned()));
        }
        let system = System::start(SystemOptions {
            kafka: place.kafka,
            // An existing server is that of another rig, and ends with it. To drop a database would cost a checkpoint.
            disposable_server: true,
            postgres: place.postgres,
            prefix: place.prefix,
            bin_dirs: place.bin_dirs,
            quiet: place.quiet,
            // A process that dies unexpectedly would distort the figures. It stays down, and the run fails.
            restart: false,
            env,
            ..SystemOptions::default()
        })
        .await?;
        Ok(Self {
            orders: database::connect(system.database_url(Service::Order)).await?,
            receipts: database::connect(system.database_url(Service::Receipt)).await?,
            psp: database::connect(system.database_url(Service::Psp)).await?,
            system,
            accepted: Mutex::default(),
        })
    }

    pub(crate) fn system(&self) -> &System {
        &self.system
    }

    pub(crate) fn pids(&self) -> Vec<(String, u32)> {
        self.system.pids()
    }

    pub(crate) fn order_url(&self) -> &str {
        self.system.database_url(Service::Order)
    }

    /// Sends orders and waits until each has shipped and its receipt is sent.
    pub(crate) async fn run(&self, plan: Plan) -> anyhow::Result<Run> {
        let driven = self.send(plan, Arc::default()).await?;
        self.arrive(driven).await
    }

    /// Sends orders without waiting for them. `accepted` counts along.
    pub(crate) async fn send(
        &self,
        plan: Plan,
        accepted: Arc<AtomicU64>,
    ) -> anyhow::Result<DriveResult> {
        let urls = self.system.endpoints().urls.order;
        let driven = drive::run(plan, urls, accepted).await?;
        let counts = &driven.tally.counts;
        ensure!(
            counts.contradicted + counts.rejected == 0,
            "{} responses contradict another, {} valid orders were rejected",
            counts.contradicted,
            counts.rejected
        );
        ensure!(!driven.tally.orders.is_empty(), "no order was accepted");
        self.accepted().extend(&driven.tally.orders);
        Ok(driven)
    }

    /// Waits until each order has shipped and its receipt is sent.
    pub(crate) async fn arrive(&self, driven: DriveResult) -> anyhow::Result<Run> {
        let sent = &driven.tally.orders;
        let shipped = shipping::wait_until_shipped(&self.orders, sent).await?;
        let mailed = shipping::wait_until_mailed(&self.receipts, sent).await?;
        let count = sent.len() as u64;
        ensure!(
            shipped.orders == count && mailed.orders == count,
            "of {count} accepted orders {} shipped and {} got a receipt; the logs are in {}",
            shipped.orders,
            mailed.orders,
            self.system.state_dir().display()
        );
        Ok(Run {
            driven,
            shipped,
            mailed,
        })
    }

    pub(crate) async fn stop_services(&self) -> anyhow::Result<()> {
        for service in Service::ALL {
            self.system.stop_service(service.name()).await?;
        }
        Ok(())
    }

    /// Returns once they are ready.
    pub(crate) async fn start_services(&self) -> anyhow::Result<()> {
        for service in Service::ALL {
            self.system.start_service(service.name()).await?;
        }
        for service in Service::ALL {
            self.wait_ready(service).await?;
        }
        Ok(())
    }

    /// Restarts order with or without back-pressure. A backlog that a measurement needs would otherwise delay
    /// its own orders.
    pub(crate) async fn set_back_pressure(&self, is_on: bool) -> anyhow::Result<()> {
        let order = Service::Order.name();
        let wait_max = if is_on { WAIT_MAX_SECONDS } else { "0" };
        self.system.stop_service(order).await?;
        self.system
            .set_env(order, "ORDER_WAIT_MAX_SECONDS", wait_max)?;
        self.system.start_service(order).await?;
        self.wait_ready(Service::Order).await
    }

    pub(crate) async fn stop_consumers(&self) -> anyhow::Result<()> {
        for service in CONSUMERS {
            self.system.stop_service(service.name()).await?;
        }
        Ok(())
    }

    /// Returns once they are ready.
    pub(crate) async fn start_consumers(&self) -> anyhow::Result<()> {
        for service in CONSUMERS {
            self.system.start_service(service.name()).await?;
        }
        for service in CONSUMERS {
            self.wait_ready(service).await?;
        }
        Ok(())
    }

    pub(crate) async fn wait_ready(&self, service: Service) -> anyhow::Result<()> {
        self.system.wait_ready(service.name(), READY_WITHIN).await
    }

    /// Fails unless every accepted order of the whole run has exactly one charge; returns their number.
    pub(crate) async fn check_books(&self) -> anyhow::Result<u64> {
        let accepted = self.accepted().clone();
        let books = shipping::count_charges(&self.psp, &accepted).await?;
        ensure!(
            books.charged_once == accepted.len() as u64 && books.any_reference_charged_twice == 0,
            "of {} accepted orders {} have exactly one charge, {} none and {} more",
            accepted.len(),
            books.charged_once,
            books.not_charged,
            books.charged_more_than_once
        );
        Ok(books.charged_once)
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.system.stop().await
    }

    fn accepted(&self) -> MutexGuard<'_, Vec<Accepted>> {
        // A panic elsewhere cannot leave the list half changed, so a poisoned lock is usable.
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `clients` wait for their responses, for this long.
pub(crate) fn closed_loop(clients: usize, duration: Duration) -> Plan {
    Plan {
        arrivals: Arrivals::ClosedLoop { clients },
        stop_after: StopAfter::Elapsed(duration),
        mix: MIX,
    }
}
