//! The charger: leases due attempts, calls the provider, hands the answers to the recorder.
//!
//! No transaction is open during a call. A charger that dies leaves a lease that runs out; whoever
//! leases the attempt next sends the same key, and the provider tells what became of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use service_kit::{crash, pace};
use sqlx::PgPool;
use telemetry::{Kind, Span, metric};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::domain::{Answer, charge_key};
use crate::psp;
use crate::store::payments::{self, Leased};

/// Most attempts leased by one statement.
const LEASE_BATCH_MAX: usize = 200;
/// Least time from one lease to the next: under load more are taken at once.
const PACE: Duration = Duration::from_millis(10);
/// Longest wait for the database, whatever became of it.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(15);
/// Pause after the database could not be asked.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// An answer on its way to the database. The permit keeps the attempt counted as in flight, and the
/// span open, until it is recorded.
pub struct Answered {
    pub payment: Leased,
    pub answer: Answer,
    pub span: Span,
    _permit: OwnedSemaphorePermit,
}

pub struct Charger {
    pub pool: PgPool,
    pub psp: psp::Client,
    pub lease: Duration,
    /// How long after its first try an attempt may be sent again.
    pub resend_max: Duration,
    pub poll: Duration,
    pub in_flight_max: usize,
    /// Told when attempts became due.
    pub due: Arc<Notify>,
    pub answers: mpsc::Sender<Answered>,
}

impl Charger {
    pub async fn run(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let slots = Arc::new(Semaphore::new(self.in_flight_max));
        let mut pace = pace(PACE);
        while !shutdown.is_cancelled() {
            pace.tick().await;
            let pause = tokio::select! {
                step = self.lease_and_call(&slots) => match step {
                    Ok(0) => self.poll,
                    Ok(_) => continue,
                    Err(error) => {
                        let error = format!("{error:#}");
                        tracing::warn!(error, "leasing failed, trying again");
                        FAILURE_PAUSE
                    }
                },
                () = shutdown.cancelled() => break,
            };
            tokio::select! {
                () = self.due.notified() => {}
                () = tokio::time::sleep(pause) => {}
                () = shutdown.cancelled() => {}
            }
        }
        // Calls that are out go on: each holds a sender, and the recorder waits for the last.
        Ok(())
    }

    /// One step: leases as many attempts as there are free slots and starts their calls. Returns
    /// how many.
    pub async fn lease_and_call(&self, slots: &Arc<Semaphore>) -> anyhow::Result<usize> {
        let first = slots.clone().acquire_owned().await?;
        let mut permits = vec![first];
        while permits.len() < LEASE_BATCH_MAX {
            match slots.clone().try_acquire_owned() {
                Ok(permit) => permits.push(permit),
                Err(_) => break,
            }
        }
        let mut connection = self.pool.acquire().await.context("connecting")?;
        // One token for the batch: it tells this lease from any other of the same attempt.
        let limit = permits.len() as i64;
        let asked_at = Instant::now();
        let (token, lease) = (Uuid::new_v4(), self.lease);
        let leasing = payments::lease_due(&mut connection, token, lease, self.resend_max, limit);
        let leased = tokio::time::timeout(DATABASE_TIMEOUT, leasing)
            .await
            .context("the database does not answer")?
            .context("leasing attempts")?;
        drop(connection);
        let count = leased.len();
        if count > 0 {
            crash::point("charge.leased");
        }
        for (payment, permit) in leased.into_iter().zip(permits) {
            let call = call(self.psp.clone(), payment, permit, self.answers.clone());
            tokio::spawn(async move {
                // A process that was paused here has lost its lease: another may be at it.
                if asked_at.elapsed() < lease {
                    call.await;
                }
            });
        }
        Ok(count)
    }
}

async fn call(
    psp: psp::Client,
    payment: Leased,
    permit: OwnedSemaphorePermit,
    answers: mpsc::Sender<Answered>,
) {
    let key = charge_key(payment.order_id, payment.attempt);
    let mut span = Span::start(
        "POST /v1/charges",
        Kind::Client,
        payment.traceparent.as_deref(),
    );
    span.set("order.id", || payment.order_id.to_string());
    span.set("payment.attempt", || i64::from(payment.attempt));
    span.set("payment.try", || i64::from(payment.tries));
    span.set("idempotency.key", || key.clone());
    span.set("correlation_id", || payment.correlation_id.clone());
    metrics::gauge!(metric::CHARGES_IN_FLIGHT).increment(1);
    let started = Instant::now();
    let traceparent = span.traceparent();
    let request = psp.charge(&key, &payment, traceparent.as_deref());
    let answer = crash::during("charge.in_flight", request).await;
    crash::point("charge.answered");
    metrics::gauge!(metric::CHARGES_IN_FLIGHT).decrement(1);
    let outcome = match &answer {
        Answer::Captured { .. } => "captured",
        Answer::Declined { .. } => "declined",
        Answer::Unknown { reason, .. } => {
            span.fail(reason.clone());
            tracing::info!(
                order_id = %payment.order_id, attempt = payment.attempt, tries = payment.tries,
                correlation_id = payment.correlation_id, reason, "the outcome is unknown"
            );
            "unknown"
        }
    };
    span.set("payment.outcome", || outcome);
    metrics::counter!(metric::PSP_CALLS, "outcome" => outcome).increment(1);
    metrics::histogram!(metric::PSP_DURATION).record(started.elapsed());
    // The recorder is gone only when the process is: then the lease runs out.
    let _ = answers
        .send(Answered {
            payment,
            answer,
            span,
            _permit: permit,
        })
        .await;
}
