//! The reconciler: compares the provider's books with our tables, both ways, page by page.
//!
//! It settles unknown outcomes, refunds charges that contradict a known attempt, and reports all other
//! differences. Money whose reason we do not know stays where it is until an operator decides. One
//! commit stores the changes of a page, its part of the report and the position in the books. The process
//! may die at any point: every step is idempotent, and the next run continues after the last page.
//!
//! A scheduled run starts where the last one ended, so its cost depends on what is new. Old charges are compared again
//! by a rare full walk, a limited number of pages per run.

mod page;
mod page_result;
mod sweep;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use chrono::Utc;
use operators::{Operator, audit};
use serde_json::json;
use service_kit::database::{self, STORE_TIMEOUT};
use service_kit::{Progress, crash};
use sqlx::{Connection as _, PgConnection, PgPool};
use telemetry::metric;
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::charger::ChargerQueues;
use crate::provider::Provider;
use crate::store::reconciliation_progress as progress;
use crate::store::reconciliations::{self, Report};
use crate::waiting::Waiting;
use page::Range;
pub use sweep::sweep;

/// The usual [`Reconciler::page_wait_max`].
pub const PAGE_WAIT_MAX: Duration = Duration::from_secs(30);
/// Longest time for one page with the call to the provider. Each wait inside has a shorter limit.
const STALL_MAX: Duration = Duration::from_secs(180);
/// Charges compared in one transaction.
const PAGE_ROWS: u32 = 500;
/// Pages of a full walk that one scheduled run compares.
const WALK_PAGES_MAX: usize = 100;
/// Why a run stopped, in its report.
const REFUND_LIMIT: &str = "refund_limit";
/// Number of bits after the milliseconds in a version 7 UUID.
const UUID_V7_TIME_SHIFT: u32 = 80;

#[derive(Clone)]
pub struct Reconciler {
    pub pool: PgPool,
    pub provider: Arc<dyn Provider>,
    /// Pause between two reconciliations. Zero: reconcile only on demand.
    pub interval: Duration,
    /// The reconciler skips charges more recent than this: a charger may still be working on them.
    pub grace: Duration,
    /// Maximum number of refunds that one run may open. Past it the run stops.
    pub refunds_max: usize,
    /// Time between two full walks.
    pub walk_interval: Duration,
    /// How far back the first run and every full walk look.
    pub lookback: Duration,
    /// Longest time to compare and store one page.
    pub page_wait_max: Duration,
    pub wake: outbox::Wake,
    /// Wakes the charger of refunds.
    pub queues: Arc<ChargerQueues>,
    pub waiting: Waiting,
}

/// How a reconciliation was started.
#[derive(Clone, Debug)]
pub enum Trigger {
    Schedule,
    /// `all`: all charges, regardless of age.
    Operator {
        all: bool,
        operator: Operator,
    },
}

#[derive(Debug, Error)]
pub enum Error {
    #[error("another reconciliation is running")]
    Busy,
    #[error(transparent)]
    Failed(#[from] anyhow::Error),
}

impl Reconciler {
    pub async fn run(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        metrics::counter!(metric::RECONCILIATIONS_STOPPED).increment(0);
        if self.interval.is_zero() {
            shutdown.cancelled().await;
            return Ok(());
        }
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.interval) => {}
                () = shutdown.cancelled() => return Ok(()),
            }
            let reconciled = tokio::select! {
                reconciled = self.reconcile(&Trigger::Schedule) => reconciled,
                // The next reconciliation repeats an interrupted one.
                () = shutdown.cancelled() => return Ok(()),
            };
            match reconciled {
                Ok(report) if report.differing > 0 => tracing::warn!(
                    report = report.id,
                    differing = report.differing,
                    "provider's books differ from our tables"
                ),
                Ok(report) => {
                    tracing::debug!(report = report.id, "provider's books agree with our tables")
                }
                Err(Error::Busy) => {
                    tracing::info!("reconciliation skipped, another one is running")
                }
                Err(Error::Failed(error)) => {
                    tracing::warn!(
                        error = format!("{error:#}"),
                        "reconciliation failed, the next one repeats it"
                    );
                }
            }
        }
    }

    /// One run over the books. At most one runs at a time across all replicas.
    pub async fn reconcile(&self, trigger: &Trigger) -> Result<Report, Error> {
        let lock = async {
            let mut guard = self.pool.acquire().await?;
            // The session holds the lock. If this task ends early, the connection is closed and
            // Postgres frees the lock.
            guard.close_on_drop();
            let is_free = reconciliations::try_lock(&mut guard).await?;
            anyhow::Ok(is_free.then_some(guard))
        };
        let locked = database::with_timeout(STORE_TIMEOUT, lock).await;
        let Some(mut guard) = locked.context("locking")? else {
            return Err(Error::Busy);
        };
        let reconciled = self.reconcile_alone(&mut guard, trigger).await;
        database::query_with_timeout(STORE_TIMEOUT, reconciliations::unlock(&mut guard))
            .await
            .context("unlocking")?;
        Ok(reconciled?)
    }

    async fn reconcile_alone(
        &self,
        guard: &mut PgConnection,
        trigger: &Trigger,
    ) -> anyhow::Result<Report> {
        let begin = async {
            let mut connection = database::acquire(&self.pool).await?;
            let mut tx = connection.begin().await?;
            let id = reconciliations::begin(&mut tx, trigger.name()).await?;
            if let Trigger::Operator { all, operator } = trigger {
                let (subject, detail) = (id.to_string(), json!({ "all": all }));
                audit::record(&mut tx, operator, "reconcile", &subject, &detail).await?;
            }
            tx.commit().await?;
            Ok(id)
        };
        let id = database::query_with_timeout(STORE_TIMEOUT, begin)
            .await
            .context("starting a report")?;
        let stopped = self.compare_books(guard, id, trigger).await?;
        if stopped.is_some() {
            metrics::counter!(metric::RECONCILIATIONS_STOPPED).increment(1);
            tracing::error!(
                report = id,
                refunds_max = self.refunds_max,
                "reconciliation stopped: too many charges contradict our attempts; check that this \
                 service uses the right database and provider account"
            );
        }
        let finish = async {
            let mut connection = database::acquire(&self.pool).await?;
            reconciliations::finish(&mut connection, id, stopped).await
        };
        database::query_with_timeout(STORE_TIMEOUT, finish)
            .await
            .context("finishing the report")
    }

    /// Returns why the run stopped early, if it did.
    async fn compare_books(
        &self,
        guard: &mut PgConnection,
        report: i64,
        trigger: &Trigger,
    ) -> anyhow::Result<Option<&'static str>> {
        let mut run = Run {
            report,
            differences_left: page::DIFFERENCES_MAX,
            refunds_left: self.refunds_max,
        };
        if matches!(trigger, Trigger::Operator { all: true, .. }) {
            let start = Uuid::nil().to_string();
            return self.walk(guard, &mut run, start, Walk::Once).await;
        }
        let read = async {
            let mut connection = database::acquire(&self.pool).await?;
            progress::read(&mut connection, self.walk_interval).await
        };
        let progress = database::query_with_timeout(STORE_TIMEOUT, read);
        let progress = progress.await.context("reading the position")?;
        let oldest = lookback_start(self.lookback).to_string();
        let start = match progress.verified_to {
            first if first.is_empty() => oldest.clone(),
            verified_to => verified_to,
        };
        let stopped = self.walk(guard, &mut run, start, Walk::New).await?;
        if stopped.is_some() || !(progress.walk_is_due || progress.walk_after.is_some()) {
            return Ok(stopped);
        }
        let start = progress.walk_after.unwrap_or(oldest);
        self.walk(guard, &mut run, start, Walk::Full).await
    }

    async fn walk(
        &self,
        guard: &mut PgConnection,
        run: &mut Run,
        start: String,
        walk: Walk,
    ) -> anyhow::Result<Option<&'static str>> {
        let mut after = start;
        let progress = Progress::current(STALL_MAX);
        for _ in 0..walk.pages_max() {
            let _step = progress.step();
            let page = self.provider.books(&after, PAGE_ROWS).await?;
            crash::point("reconcile.page_read");
            let range = Range {
                last: page.next.as_deref(),
                after: &after,
            };
            let compared = self.compare_or_split(run, walk, range, &page).await?;
            crash::point("reconcile.page_committed");
            // Keeps the session alive. If the process is paused, Postgres ends the session and
            // frees the lock.
            database::query_with_timeout(STORE_TIMEOUT, guard.ping())
                .await
                .context("the lock is lost, another reconciliation may be running")?;
            if compared.capped {
                return Ok(Some(REFUND_LIMIT));
            }
            match page.next {
                Some(next) if !compared.recent || walk != Walk::New => after = next,
                _ => break,
            }
        }
        Ok(None)
    }
}

/// What one run may still do.
struct Run {
    report: i64,
    differences_left: usize,
    refunds_left: usize,
}

/// Which part of the books is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    /// From the last verified charge to the newest.
    New,
    /// The old charges again, part of them in each run.
    Full,
    /// All charges, on an operator's request.
    Once,
}

impl Walk {
    const fn pages_max(self) -> usize {
        match self {
            Self::New | Self::Once => usize::MAX,
            Self::Full => WALK_PAGES_MAX,
        }
    }
}

impl Trigger {
    /// As the column `reconciliations.trigger` stores it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Operator { .. } => "operator",
        }
    }
}

/// An id as of this long ago: the ids of charges start with their time.
fn lookback_start(lookback: Duration) -> Uuid {
    let since = Utc::now() - lookback;
    let milliseconds = u128::try_from(since.timestamp_millis()).unwrap_or_default();
    Uuid::from_u128(milliseconds << UUID_V7_TIME_SHIFT)
}
