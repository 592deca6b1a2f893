//! The recorder: stores the provider's answers and their follow-ups, many in one commit.

mod sorted;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use leases::{Done, Record, WhenUnreachable};
use service_kit::{Backoff, crash, database};
use sqlx::{Connection as _, PgPool};
use tokio::sync::mpsc;

use crate::charger::{Answered, ChargerQueues, Queue};
use crate::domain::ProviderAnswer;
use crate::follow_ups::FollowUps;
use crate::waiting::Waiting;
use sorted::Sorted;

/// The usual [`Recorder::store_wait_max`].
pub const STORE_WAIT_MAX: Duration = Duration::from_secs(30);

pub struct Recorder {
    pub pool: PgPool,
    pub backoff: Backoff,
    /// Longest time that one commit may take.
    pub store_wait_max: Duration,
    /// Wakes the relay.
    pub wake: outbox::Wake,
    /// Wakes the charger of refunds.
    pub queues: Arc<ChargerQueues>,
    /// Wakes the requests that wait for a direct charge.
    pub waiting: Waiting,
}

impl Recorder {
    /// Records answers until the chargers have stopped. While the store is unreachable, the recorder
    /// discards answers: their leases expire, chargers send the same keys again, and the provider
    /// repeats its answers.
    pub async fn run(self, answers: mpsc::Receiver<Done<Answered>>) -> anyhow::Result<()> {
        let limit = self.store_wait_max;
        leases::Recorder::new(self, WhenUnreachable::Discard, limit, answers)
            .run()
            .await
    }

    /// Delay before the next call, after an answer that settled nothing.
    fn delay(&self, answered: &Answered) -> Duration {
        let tries = u32::try_from(answered.leased.tries).unwrap_or(1);
        match &answered.answer {
            // The provider has no entry under the key: a charger may send it again immediately. A spent
            // key is looked up immediately.
            ProviderAnswer::Absent | ProviderAnswer::KeySpent { .. } => Duration::ZERO,
            // The provider sent a Retry-After. The backoff spreads the calls after it.
            answer => answer.retry_after().unwrap_or_default() + self.backoff.delay(tries),
        }
    }
}

impl Record for Recorder {
    type Output = Answered;

    /// Records the answers in one transaction. Returns the number of attempts and refunds that it
    /// settled.
    async fn record(&self, batch: &[Done<Answered>]) -> anyhow::Result<usize> {
        let delays: Vec<Duration> = batch.iter().map(|it| self.delay(it)).collect();
        let sorted = Sorted::of(batch, &delays);
        let mut connection = database::acquire(&self.pool)
            .await
            .context("starting a transaction")?;
        let mut tx = connection.begin().await.context("starting a transaction")?;
        let (settled, refunded) = sorted.write(&mut tx).await?;
        let mut follow_ups = FollowUps::default();
        for settled in &settled {
            if let Some(it) = sorted.by_lease(settled) {
                follow_ups.add_settled(settled, &it.answer, it.span.traceparent())?;
            }
        }
        let (charges, refunds) = (settled.len(), refunded.len());
        for refunded in refunded {
            let key = &refunded.key;
            let it = batch.iter().find(|it| it.leased.key() == *key);
            follow_ups.add_refunded(refunded, it.and_then(|it| it.span.traceparent()))?;
        }
        follow_ups.write(&mut tx).await?;
        tx.commit().await.context("committing")?;
        if refunds > 0 {
            crash::point("refund.recorded");
        }
        crash::point("charge.recorded");
        self.wake.wake();
        let refunds_due = self.queues.of(Queue::Refunds);
        let principals = follow_ups.refund_principals();
        principals.for_each(|principal| refunds_due.wake(principal));
        follow_ups.direct().for_each(|id| self.waiting.settled(id));
        let stale = sorted.definite() - charges - refunds;
        if stale > 0 {
            tracing::info!(stale, "stale answers discarded");
        }
        Ok(charges + refunds)
    }

    fn describe(&self, answered: &Answered) -> String {
        format!("{}, {}", answered.leased.key(), answered.answer.name())
    }
}
