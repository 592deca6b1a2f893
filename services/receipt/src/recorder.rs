//! The recorder: outcomes of dialogues go into the log, many in one commit.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use service_kit::{Backoff, crash, database, min_interval};
use sqlx::PgPool;
use tokio::sync::mpsc;

use crate::domain::next;
use crate::sender::Tried;
use crate::store::receipts::{self, TryResult};

/// Most outcomes recorded by one commit.
const BATCH_MAX: usize = 200;
/// Longest time one commit may take, whatever became of the database.
const RECORD_TIMEOUT: Duration = Duration::from_secs(15);
/// Least time from one commit to the next: under load more outcomes share one.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// Pause before outcomes that could not be recorded are recorded again.
const RETRY_PAUSE: Duration = Duration::from_millis(500);
/// Longest reason kept; a server may talk at length.
const REASON_LEN_MAX: usize = 500;

pub struct Recorder {
    pub pool: PgPool,
    pub backoff: Backoff,
    pub outcomes: mpsc::Receiver<Tried>,
}

impl Recorder {
    /// Runs until the sender has ended and the last dialogue has come to an end.
    pub async fn run(mut self) -> anyhow::Result<()> {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        let mut batches = min_interval(MIN_INTERVAL);
        while self.outcomes.recv_many(&mut batch, BATCH_MAX).await > 0 {
            self.record_what_can_be(&batch).await;
            batch.clear();
            batches.tick().await;
        }
        Ok(())
    }

    /// An outcome that is lost here may cost the customer a second mail, so while the database is
    /// away they are kept, and the mails' connections with them, until the leases have run out. One
    /// that never can be recorded must not take the others along.
    async fn record_what_can_be(&self, batch: &[Tried]) {
        let Err(error) = self.record_while_leased(batch).await else {
            return;
        };
        if batch.len() > 1 && !is_transient(&error) {
            for tried in batch {
                if let Err(error) = self.record_while_leased(std::slice::from_ref(tried)).await {
                    report(&error, std::slice::from_ref(tried));
                }
            }
            return;
        }
        report(&error, batch);
    }

    async fn record_while_leased(&self, batch: &[Tried]) -> anyhow::Result<()> {
        let leased_until = batch.iter().map(|tried| tried.lease_ends).max();
        loop {
            let recorded = database::with_timeout(RECORD_TIMEOUT, self.record(batch)).await;
            let Err(error) = recorded else {
                return Ok(());
            };
            let is_over = leased_until.is_none_or(|end| Instant::now() >= end);
            if is_over || !is_transient(&error) {
                return Err(error);
            }
            let error = format!("{error:#}");
            tracing::warn!(error, "outcomes could not be recorded, trying again");
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// One step: records the outcomes in one statement. Returns how many counted.
    pub async fn record(&self, batch: &[Tried]) -> anyhow::Result<u64> {
        let results: Vec<TryResult> = batch.iter().map(|it| self.result(it)).collect();
        let mut connection = database::acquire(&self.pool).await.context("connecting")?;
        let recorded = receipts::record(&mut connection, &results)
            .await
            .context("recording outcomes")?;
        crash::point("receipt.recorded");
        if recorded < results.len() as u64 {
            let refused = results.len() as u64 - recorded;
            tracing::info!(refused, "outcomes came after their lease had run out");
        }
        Ok(recorded)
    }

    fn result(&self, tried: &Tried) -> TryResult {
        let mail = &tried.mail;
        TryResult {
            event_id: mail.event_id,
            mail_type: mail.mail_type.clone(),
            token: mail.token,
            state: next(mail.state(), &tried.outcome),
            error: tried.outcome.reason().map(printable),
            delay: self.backoff.delay(u32::try_from(mail.tries).unwrap_or(1)),
        }
    }
}

fn is_transient(error: &anyhow::Error) -> bool {
    error.chain().any(database::is_transient_cause)
}

fn report(error: &anyhow::Error, batch: &[Tried]) {
    let error = format!("{error:#}");
    for tried in batch {
        let order_id = tried.mail.order_id;
        let outcome = tried.outcome.as_str();
        tracing::error!(error, %order_id, outcome, "an outcome could not be recorded");
    }
}

/// A stranger's words, fit for a text column and a terminal.
fn printable(reason: &str) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    reason.chars().map(visible).take(REASON_LEN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_no_control_characters_and_an_end() {
        assert_eq!(printable("550 a\0b\r\nc"), "550 a b  c");
        let long = "é".repeat(2 * REASON_LEN_MAX);
        assert_eq!(printable(&long).chars().count(), REASON_LEN_MAX);
    }
}
