//! The recorder: answers of the provider become results and events, many in one commit.

mod sorted;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use service_kit::{Backoff, crash, database, min_interval};
use sqlx::{Connection as _, PgPool};
use tokio::sync::{Notify, mpsc};

use crate::charger::Answered;
use crate::domain::Answer;
use crate::outcome::Aftermath;
use crate::waiting::Waiting;
use sorted::Sorted;

/// Most answers recorded by one commit.
const BATCH_MAX: usize = 200;
/// Longest time one commit may take, whatever became of the database.
const RECORD_TIMEOUT: Duration = Duration::from_secs(30);
/// Least time from one commit to the next: under load more answers share one.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

pub struct Recorder {
    pub pool: PgPool,
    pub backoff: Backoff,
    /// Wakes the relay.
    pub wake: outbox::Wake,
    /// Wakes the charger of refunds.
    pub refund_due: Arc<Notify>,
    /// Callers of direct charges.
    pub waiting: Waiting,
    pub answers: mpsc::Receiver<Answered>,
}

impl Recorder {
    /// Runs until the charger has ended and the last call that is out has been answered, so that
    /// nothing needs to be asked for again after a shutdown.
    pub async fn run(mut self) -> anyhow::Result<()> {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        let mut batches = min_interval(MIN_INTERVAL);
        while self.answers.recv_many(&mut batch, BATCH_MAX).await > 0 {
            self.record_what_can_be(&batch).await;
            batch.clear();
            batches.tick().await;
        }
        Ok(())
    }

    /// Answers that cannot be recorded are not kept: their leases run out, the same keys are sent
    /// again, and the provider repeats itself. One that never can must not take the others along,
    /// so they are recorded one by one, unless it is the database that is away.
    async fn record_what_can_be(&self, batch: &[Answered]) {
        let recorded = database::with_timeout(RECORD_TIMEOUT, self.record(batch)).await;
        let Err(error) = recorded else {
            return;
        };
        let transient = error.chain().any(database::is_transient_cause);
        if transient || batch.len() == 1 {
            let (error, answers) = (format!("{error:#}"), batch.len());
            tracing::error!(error, answers, "answers could not be recorded");
            return;
        }
        for answered in batch {
            let single = self.record(std::slice::from_ref(answered));
            if let Err(error) = database::with_timeout(RECORD_TIMEOUT, single).await {
                let (error, order_id) = (format!("{error:#}"), answered.leased.order_id);
                tracing::error!(error, %order_id, "an answer could not be recorded");
            }
        }
    }

    /// One step: records the answers in one transaction. Returns how many attempts and refunds it
    /// settled.
    pub async fn record(&self, batch: &[Answered]) -> anyhow::Result<usize> {
        let delays: Vec<Duration> = batch.iter().map(|it| self.delay(it)).collect();
        let sorted = Sorted::of(batch, &delays);
        let mut connection = database::acquire(&self.pool).await.context("beginning")?;
        let mut tx = connection.begin().await.context("beginning")?;
        let (settled, refunded) = sorted.write(&mut tx).await?;
        let mut aftermath = Aftermath::default();
        for settled in &settled {
            if let Some(it) = sorted.by_lease(settled) {
                aftermath.add_settled(settled, &it.answer, it.span.traceparent())?;
            }
        }
        let (charges, refunds) = (settled.len(), refunded.len());
        for refunded in refunded {
            let key = &refunded.key;
            let it = batch.iter().find(|it| it.leased.key() == *key);
            aftermath.add_refunded(refunded, it.and_then(|it| it.span.traceparent()))?;
        }
        let opened = aftermath.write(&mut tx).await?;
        tx.commit().await.context("committing")?;
        if refunds > 0 {
            crash::point("refund.recorded");
        }
        crash::point("charge.recorded");
        self.wake.wake();
        if opened > 0 {
            self.refund_due.notify_one();
        }
        aftermath.direct().for_each(|id| self.waiting.settled(id));
        let refused = sorted.definite() - charges - refunds;
        if refused > 0 {
            tracing::info!(refused, "answers came after their lease had run out");
        }
        Ok(charges + refunds)
    }

    /// How long to leave the provider alone after an answer that settled nothing.
    fn delay(&self, answered: &Answered) -> Duration {
        let tries = u32::try_from(answered.leased.tries).unwrap_or(1);
        match &answered.answer {
            // Its key may be sent again at once.
            Answer::Absent => Duration::ZERO,
            // The provider knows best when it wants to be asked again.
            Answer::Unknown {
                retry_after: Some(asked),
                ..
            } => *asked + self.backoff.delay(tries),
            _ => self.backoff.delay(tries),
        }
    }
}
