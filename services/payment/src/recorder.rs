//! The recorder: answers of the provider become results and events, many in one commit.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context as _;
use events::{Envelope, Line, Origin, PaymentCaptured, PaymentDeclined};
use money::Currency;
use service_kit::{Backoff, crash, database, pace};
use sqlx::PgPool;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::charger::Answered;
use crate::domain::{Answer, Status, next};
use crate::store::payments::{self, Leased, Postponement, Settled, Settlement};

/// Most answers recorded by one commit.
const BATCH_MAX: usize = 200;
/// Longest time one commit may take, whatever became of the database.
const RECORD_TIMEOUT: Duration = Duration::from_secs(30);
/// Least time from one commit to the next: under load more answers share one.
const PACE: Duration = Duration::from_millis(10);
/// The name under which this service announces events.
const SOURCE: &str = "payment";
/// The version of the payloads.
const PAYLOAD_VERSION: u16 = 1;

pub struct Recorder {
    pub pool: PgPool,
    pub backoff: Backoff,
    pub wake: outbox::Wake,
    pub answers: mpsc::Receiver<Answered>,
}

impl Recorder {
    /// Runs until the charger has ended and the last call that is out has been answered, so that
    /// nothing needs to be asked for again after a shutdown.
    pub async fn run(mut self) -> anyhow::Result<()> {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        let mut pace = pace(PACE);
        while self.answers.recv_many(&mut batch, BATCH_MAX).await > 0 {
            self.record_what_can_be(&batch).await;
            batch.clear();
            pace.tick().await;
        }
        Ok(())
    }

    /// Answers that cannot be recorded are not kept: their leases run out, the same keys are sent
    /// again, and the provider repeats itself. One that never can must not take the others along,
    /// so they are recorded one by one, unless it is the database that is away.
    async fn record_what_can_be(&self, batch: &[Answered]) {
        let recorded = tokio::time::timeout(RECORD_TIMEOUT, self.record(batch)).await;
        let Err(error) = recorded.unwrap_or(Err(sqlx::Error::PoolTimedOut.into())) else {
            return;
        };
        let transient = error
            .downcast_ref::<sqlx::Error>()
            .is_some_and(database::is_transient);
        if transient || batch.len() == 1 {
            let (error, answers) = (format!("{error:#}"), batch.len());
            tracing::error!(error, answers, "answers could not be recorded");
            return;
        }
        for answered in batch {
            if let Err(error) = self.record(std::slice::from_ref(answered)).await {
                let (error, order_id) = (format!("{error:#}"), answered.payment.order_id);
                tracing::error!(error, %order_id, "an answer could not be recorded");
            }
        }
    }

    /// One step: records the answers in one transaction. Returns how many attempts it settled.
    pub async fn record(&self, batch: &[Answered]) -> anyhow::Result<usize> {
        let settlements: Vec<Settlement> = batch.iter().filter_map(settlement).collect();
        let postponements: Vec<Postponement> = batch
            .iter()
            .filter_map(|answered| self.postponement(answered))
            .collect();
        let mut tx = self.pool.begin().await.context("beginning")?;
        let mut settled = Vec::new();
        if !settlements.is_empty() {
            settled = payments::settle(&mut tx, &settlements)
                .await
                .context("settling attempts")?;
        }
        if !postponements.is_empty() {
            payments::postpone(&mut tx, &postponements)
                .await
                .context("postponing attempts")?;
        }
        let events = announce_all(&settled, batch)?;
        outbox::enqueue(&mut tx, &events)
            .await
            .context("writing events")?;
        tx.commit().await.context("committing")?;
        crash::point("charge.recorded");
        self.wake.wake();
        if settled.len() < settlements.len() {
            let refused = settlements.len() - settled.len();
            tracing::info!(refused, "answers came after their lease had run out");
        }
        Ok(settled.len())
    }

    fn postponement(&self, answered: &Answered) -> Option<Postponement> {
        let Answer::Unknown {
            reason,
            retry_after,
        } = &answered.answer
        else {
            return None;
        };
        let tries = u32::try_from(answered.payment.tries).unwrap_or(1);
        let delay = self.backoff.delay(tries);
        Some(Postponement {
            order_id: answered.payment.order_id,
            attempt: answered.payment.attempt,
            token: answered.payment.token,
            // The provider knows best when it wants to be asked again.
            delay: retry_after.map_or(delay, |asked| asked + delay),
            error: reason.clone(),
        })
    }
}

fn settlement(answered: &Answered) -> Option<Settlement> {
    // Only a pending attempt has a lease, and the update asks for the lease again.
    let status = next(Status::Pending, &answered.answer)?;
    let (charge_id, decline_code) = match &answered.answer {
        Answer::Captured { charge_id } => (Some(charge_id.clone()), None),
        Answer::Declined { code } => (None, Some(code.clone())),
        Answer::Unknown { .. } => return None,
    };
    Some(Settlement {
        order_id: answered.payment.order_id,
        attempt: answered.payment.attempt,
        token: answered.payment.token,
        status: status.as_str(),
        charge_id,
        decline_code,
    })
}

fn announce_all(settled: &[Settled], batch: &[Answered]) -> anyhow::Result<Vec<Envelope>> {
    // By lease: a batch may hold an overdue answer to an attempt besides the one that counted.
    let answers: HashMap<(Uuid, i32, Uuid), &Answered> = batch
        .iter()
        .map(|answered| {
            let Leased {
                order_id,
                attempt,
                token,
                ..
            } = answered.payment;
            ((order_id, attempt, token), answered)
        })
        .collect();
    let events = settled.iter().filter_map(|settled| {
        let answered = answers.get(&(settled.order_id, settled.attempt, settled.token))?;
        announce(settled, answered).transpose()
    });
    events.collect()
}

/// The event of an attempt that was settled just now, in the trace of its call.
fn announce(settled: &Settled, answered: &Answered) -> anyhow::Result<Option<Envelope>> {
    let origin = Origin {
        source: SOURCE,
        correlation_id: &settled.correlation_id,
        traceparent: answered.span.traceparent(),
    };
    let envelope = match &answered.answer {
        Answer::Captured { charge_id } => {
            let lines: Vec<Line> = serde_json::from_value(settled.lines.clone())?;
            let event = PaymentCaptured {
                v: PAYLOAD_VERSION,
                order_id: settled.order_id,
                attempt: settled.attempt,
                charge_id: charge_id.clone(),
                amount: settled.amount,
                currency: settled.currency.parse::<Currency>()?,
                lines,
                customer_id: String::new(),
            };
            Envelope::seal(origin, &event)?
        }
        Answer::Declined { code } => {
            let event = PaymentDeclined {
                v: PAYLOAD_VERSION,
                order_id: settled.order_id,
                attempt: settled.attempt,
                decline_code: code.clone(),
            };
            Envelope::seal(origin, &event)?
        }
        Answer::Unknown { .. } => return Ok(None),
    };
    Ok(Some(envelope))
}
