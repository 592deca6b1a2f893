//! The reconciler: compares the provider's books with our tables, both ways, page by page.
//!
//! It settles unknown outcomes, refunds orphan charges and reports all other differences. One
//! commit stores the changes of a page and its part of the report. The process may die at any
//! point: every step is idempotent, and the next reconciliation repeats an interrupted one.

mod page;
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
use thiserror::Error;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::charger::ChargerQueues;
use crate::psp;
use crate::store::reconciliations::{self, Report};
use crate::waiting::Waiting;
use page::Range;
pub use sweep::sweep;

/// Longest time to compare and store one page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time for one page with the call to the provider. Each wait inside has a shorter limit.
const STALL_MAX: Duration = Duration::from_secs(180);
/// Charges compared in one transaction.
const PAGE_ROWS: u32 = 500;
/// Number of bits after the milliseconds in a version 7 UUID.
const UUID_V7_TIME_SHIFT: u32 = 80;

#[derive(Clone)]
pub struct Reconciler {
    pub pool: PgPool,
    pub psp: psp::Client,
    /// Pause between two reconciliations. Zero: reconcile only on demand.
    pub interval: Duration,
    /// The reconciler skips charges more recent than this: a charger may still be working on them.
    pub grace: Duration,
    /// How long a charge under our key waits for its attempt before it is refunded.
    pub orphan_grace: Duration,
    /// How far back a scheduled reconciliation looks.
    pub lookback: Duration,
    pub wake: outbox::Wake,
    /// Wakes the charger of refunds.
    pub queues: Arc<ChargerQueues>,
    pub waiting: Waiting,
}

/// How a reconciliation was started.
#[derive(Clone, Debug, PartialEq, Eq)]
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
        self.compare_pages(guard, id, trigger.start(self.lookback))
            .await?;
        let finish = async {
            let mut connection = database::acquire(&self.pool).await?;
            reconciliations::finish(&mut connection, id).await
        };
        database::query_with_timeout(STORE_TIMEOUT, finish)
            .await
            .context("finishing the report")
    }

    async fn compare_pages(
        &self,
        guard: &mut PgConnection,
        report: i64,
        start: Uuid,
    ) -> anyhow::Result<()> {
        let mut after = start.to_string();
        let mut differences_left = page::DIFFERENCES_MAX;
        let progress = Progress::current(STALL_MAX);
        loop {
            let _step = progress.step();
            let page = self.psp.ledger(&after, PAGE_ROWS).await?;
            crash::point("reconcile.page_read");
            let range = Range {
                last: page.next.as_deref(),
                after: &after,
            };
            let compare = self.compare(report, range, &page.data, differences_left);
            differences_left = database::with_timeout(PAGE_TIMEOUT, compare).await?;
            crash::point("reconcile.page_committed");
            // Keeps the session alive. If the process is paused, Postgres ends the session and
            // frees the lock.
            database::query_with_timeout(STORE_TIMEOUT, guard.ping())
                .await
                .context("the lock is lost, another reconciliation may be running")?;
            match page.next {
                Some(next) => after = next,
                None => return Ok(()),
            }
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

    /// The run starts after this id. The ids of charges start with their time.
    fn start(&self, lookback: Duration) -> Uuid {
        if matches!(self, Self::Operator { all: true, .. }) {
            return Uuid::nil();
        }
        let since = Utc::now() - lookback;
        let milliseconds = u128::try_from(since.timestamp_millis()).unwrap_or_default();
        Uuid::from_u128(milliseconds << UUID_V7_TIME_SHIFT)
    }
}
