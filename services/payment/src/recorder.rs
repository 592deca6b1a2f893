//! The recorder: answers of the provider become results and events, many in one commit.

use anyhow::Context as _;
use events::{Envelope, Line, Origin, PaymentCaptured, PaymentDeclined};
use money::Currency;
use service_kit::{Backoff, crash};
use sqlx::PgPool;
use tokio::sync::mpsc;

use crate::charger::Answered;
use crate::domain::{Answer, Status, next};
use crate::store::payments::{self, Postponement, Settled, Settlement};

/// Most answers recorded by one commit.
const BATCH_MAX: usize = 200;
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
    /// Runs until no charger is left to send answers.
    pub async fn run(mut self) -> anyhow::Result<()> {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while self.answers.recv_many(&mut batch, BATCH_MAX).await > 0 {
            // Not kept on failure: the leases run out, the same keys are sent again, and the
            // provider repeats its answers.
            if let Err(error) = self.record(&batch).await {
                let error = format!("{error:#}");
                tracing::error!(
                    error,
                    answers = batch.len(),
                    "answers could not be recorded"
                );
            }
            batch.clear();
        }
        Ok(())
    }

    /// One step: records the answers in one transaction. Returns how many attempts it settled.
    pub async fn record(&self, batch: &[Answered]) -> anyhow::Result<usize> {
        let settlements: Vec<Settlement> = batch.iter().filter_map(settlement).collect();
        let postponements: Vec<Postponement> = batch
            .iter()
            .filter_map(|answered| self.postponement(answered))
            .collect();
        let mut tx = self.pool.begin().await.context("beginning")?;
        let settled = payments::settle(&mut tx, &settlements)
            .await
            .context("settling attempts")?;
        if !postponements.is_empty() {
            payments::postpone(&mut tx, &postponements)
                .await
                .context("postponing attempts")?;
        }
        let events = settled
            .iter()
            .filter_map(|settled| announce(settled, batch).transpose())
            .collect::<anyhow::Result<Vec<Envelope>>>()?;
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
    // A lease is only ever given on a pending attempt, and the update asks again.
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

/// The event of an attempt that was settled just now, in the trace of its call.
fn announce(settled: &Settled, batch: &[Answered]) -> anyhow::Result<Option<Envelope>> {
    let id = (settled.order_id, settled.attempt);
    let answered = batch
        .iter()
        .find(|answered| (answered.payment.order_id, answered.payment.attempt) == id)
        .context("an attempt was settled that nobody answered")?;
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
