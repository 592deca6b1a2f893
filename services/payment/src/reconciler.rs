//! The reconciler: holds the provider's books against our tables, both ways, page by page.
//!
//! It settles what the provider never told us, gives back what no attempt owns, and reports the rest.
//! Whatever it does for a page is one commit with the page's part of the report; it may die anywhere,
//! and the next sweep finds done what was done.

mod page;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use chrono::Utc;
use service_kit::crash;
use service_kit::database::{self, STORE_TIMEOUT};
use sqlx::{Connection as _, PgConnection, PgPool};
use thiserror::Error;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::psp;
use crate::store::reconciliations::{self, Report};
use crate::waiting::Waiting;
use page::Range;

/// Longest time that a page may take at the store.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Charges compared in one transaction.
const PAGE_ROWS: u32 = 500;
/// Bits of a version 7 UUID behind its milliseconds.
const UUID_V7_TIME_SHIFT: u32 = 80;

#[derive(Clone)]
pub struct Reconciler {
    pub pool: PgPool,
    pub psp: psp::Client,
    /// Pause between two sweeps; zero: only on demand.
    pub interval: Duration,
    /// What is younger is left to those who are at it.
    pub grace: Duration,
    /// How long a charge under a key of ours waits for its attempt before it goes back.
    pub unheard_grace: Duration,
    /// How far back a scheduled sweep looks.
    pub lookback: Duration,
    pub wake: outbox::Wake,
    pub refund_due: Arc<Notify>,
    pub waiting: Waiting,
}

/// How a sweep came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    Schedule,
    /// `all`: the whole of the books, however old.
    Operator {
        all: bool,
    },
}

#[derive(Debug, Error)]
pub enum Error {
    #[error("another sweep is under way")]
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
            let swept = tokio::select! {
                swept = self.sweep(Trigger::Schedule) => swept,
                // Given up half-way: the next sweep does it again.
                () = shutdown.cancelled() => return Ok(()),
            };
            match swept {
                Ok(report) if report.differing > 0 => tracing::warn!(
                    report = report.id,
                    differing = report.differing,
                    "the provider's books differ from ours"
                ),
                Ok(report) => tracing::debug!(report = report.id, "the books agree"),
                Err(Error::Busy) => tracing::info!("another sweep is under way"),
                Err(Error::Failed(error)) => {
                    tracing::warn!(error = format!("{error:#}"), "reconciling failed");
                }
            }
        }
    }

    /// One sweep over the books. At most one runs at a time, over all replicas.
    pub async fn sweep(&self, trigger: Trigger) -> Result<Report, Error> {
        let lock = async {
            let mut guard = self.pool.acquire().await?;
            // Its session holds the lock: closed, not returned, and so free whatever happens here.
            guard.close_on_drop();
            let is_free = reconciliations::try_lock(&mut guard).await?;
            anyhow::Ok(is_free.then_some(guard))
        };
        let locked = database::with_timeout(STORE_TIMEOUT, lock).await;
        let Some(mut guard) = locked.context("locking")? else {
            return Err(Error::Busy);
        };
        let swept = self.sweep_alone(&mut guard, trigger).await;
        database::query_with_timeout(STORE_TIMEOUT, reconciliations::unlock(&mut guard))
            .await
            .context("unlocking")?;
        Ok(swept?)
    }

    async fn sweep_alone(
        &self,
        guard: &mut PgConnection,
        trigger: Trigger,
    ) -> anyhow::Result<Report> {
        let begin = async {
            let mut connection = database::acquire(&self.pool).await?;
            reconciliations::begin(&mut connection, trigger.name()).await
        };
        let id = database::query_with_timeout(STORE_TIMEOUT, begin)
            .await
            .context("beginning a report")?;
        self.walk(guard, id, trigger.start(self.lookback)).await?;
        let finish = async {
            let mut connection = database::acquire(&self.pool).await?;
            reconciliations::finish(&mut connection, id).await
        };
        database::query_with_timeout(STORE_TIMEOUT, finish)
            .await
            .context("finishing the report")
    }

    async fn walk(&self, guard: &mut PgConnection, report: i64, start: Uuid) -> anyhow::Result<()> {
        let mut after = start.to_string();
        let mut room = page::DIFFERENCES_MAX;
        loop {
            let page = self.psp.ledger(&after, PAGE_ROWS).await?;
            crash::point("reconcile.page_read");
            let range = Range {
                last: page.next.as_deref(),
                after: &after,
            };
            let compare = self.compare(report, range, &page.data, room);
            room = database::with_timeout(PAGE_TIMEOUT, compare).await?;
            crash::point("reconcile.page_committed");
            // A sign of life: the session of a sweep that is paused ends, and with it the lock.
            database::query_with_timeout(STORE_TIMEOUT, guard.ping())
                .await
                .context("another may be sweeping by now")?;
            match page.next {
                Some(next) => after = next,
                None => return Ok(()),
            }
        }
    }
}

impl Trigger {
    fn name(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Operator { .. } => "operator",
        }
    }

    /// The id to start behind. Charges have ids that begin with their time.
    fn start(self, lookback: Duration) -> Uuid {
        if self == (Self::Operator { all: true }) {
            return Uuid::nil();
        }
        let since = Utc::now() - lookback;
        let milliseconds = u128::try_from(since.timestamp_millis()).unwrap_or_default();
        Uuid::from_u128(milliseconds << UUID_V7_TIME_SHIFT)
    }
}
