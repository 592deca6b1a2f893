//! Settles pending charges and refunds when their time has come.

use std::time::Duration;

use sqlx::PgPool;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::domain::clock;
use crate::domain::operation::Operation;
use crate::domain::{charge, refund};
use crate::outcome_counts;
use crate::store::settlements;

/// How often the settler looks for due rows.
pub const INTERVAL: Duration = Duration::from_millis(200);
/// The wait after a failed step.
pub const ERROR_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of charges, and of refunds, in one step.
pub const BATCH_MAX: usize = 500;

pub struct Settler {
    pool: PgPool,
}

/// What one step found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// All due rows are settled.
    Done,
    /// More rows may be due.
    More,
}

impl Settler {
    pub fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    /// Runs until shutdown. A failed step is repeated: the rows stay due.
    pub async fn run(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        while !shutdown.is_cancelled() {
            let wait = match self.step().await {
                Ok(Step::More) => Duration::ZERO,
                Ok(Step::Done) => INTERVAL,
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(error, "pending charges and refunds not settled");
                    ERROR_INTERVAL
                }
            };
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = sleep(wait) => {}
            }
        }
        Ok(())
    }

    /// Settles one batch of charges and one of refunds.
    pub async fn step(&self) -> sqlx::Result<Step> {
        let (now, limit) = (clock::now(), BATCH_MAX as i64);
        let mut connection = self.pool.acquire().await?;
        let charges = settlements::settle_charges(&mut connection, now, limit).await?;
        for status in charge::Status::ALL.map(charge::Status::as_str) {
            outcome_counts::add(Operation::Charge, status, count(&charges, status));
        }
        let refunds = settlements::settle_refunds(&mut connection, now, limit).await?;
        for status in refund::Status::ALL.map(refund::Status::as_str) {
            outcome_counts::add(Operation::Refund, status, count(&refunds, status));
        }
        let is_full = charges.len().max(refunds.len()) == BATCH_MAX;
        Ok(if is_full { Step::More } else { Step::Done })
    }
}

fn count(statuses: &[String], status: &str) -> u64 {
    statuses.iter().filter(|it| *it == status).count() as u64
}
