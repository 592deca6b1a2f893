//! The chargers: lease what is due, call the provider, hand the answers to the recorder.
//!
//! No transaction is open during a call. A charger that dies leaves a lease that runs out; whoever
//! leases the attempt next sends the same key, and the provider tells what became of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use service_kit::{crash, database, min_interval};
use sqlx::PgPool;
use telemetry::{Kind, Span, metric};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::domain::{Answer, Errand, Status};
use crate::psp;
use crate::store::lease::{Leased, Terms};
use crate::store::{payments, refunds};

/// Most attempts leased by one statement.
const LEASE_BATCH_MAX: usize = 200;
/// Least time from one lease to the next: under load more are taken at once.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// Longest wait for the database, whatever became of it.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(15);
/// Pause after the database could not be asked.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);

/// What a charger looks for. Each kind has a charger, and slots, of its own: a pile of calls that end
/// without an answer cannot keep fresh orders waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Attempts that nobody has asked the provider about in vain.
    Fresh,
    /// Attempts whose outcome is not known.
    Unknown,
    Refunds,
}

/// An answer on its way to the database. The permit keeps the attempt counted as in flight, and the
/// span open, until it is recorded.
pub struct Answered {
    pub leased: Leased,
    pub answer: Answer,
    pub span: Span,
    _permit: OwnedSemaphorePermit,
}

#[derive(Clone)]
pub struct Charger {
    pub work: Work,
    pub pool: PgPool,
    pub psp: psp::Client,
    pub lease: Duration,
    /// How long after its first try a key may be sent again.
    pub resend_max: Duration,
    pub poll: Duration,
    pub in_flight_max: usize,
    /// Told when there is something due.
    pub due: Arc<Notify>,
    pub answers: mpsc::Sender<Answered>,
}

impl Charger {
    pub async fn run(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let slots = Arc::new(Semaphore::new(self.in_flight_max));
        let mut batches = min_interval(MIN_INTERVAL);
        while !shutdown.is_cancelled() {
            batches.tick().await;
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
        let terms = Terms {
            token: Uuid::new_v4(),
            lease: self.lease,
            resend_max: self.resend_max,
            limit: permits.len() as i64,
        };
        let asked_at = Instant::now();
        let leased = tokio::time::timeout(DATABASE_TIMEOUT, self.lease(terms))
            .await
            .context("the database does not answer")??;
        let count = leased.len();
        if count > 0 {
            crash::point(self.work.leased());
        }
        for (leased, permit) in leased.into_iter().zip(permits) {
            let call = call(self.psp.clone(), leased, permit, self.answers.clone());
            tokio::spawn(async move {
                // A process that was paused here has lost its lease: another may be at it.
                if asked_at.elapsed() < terms.lease {
                    call.await;
                }
            });
        }
        Ok(count)
    }

    async fn lease(&self, terms: Terms) -> anyhow::Result<Vec<Leased>> {
        let mut connection = database::acquire(&self.pool).await.context("connecting")?;
        let leased = match self.work {
            Work::Fresh => payments::lease_due(&mut connection, Status::Pending, terms).await,
            Work::Unknown => payments::lease_due(&mut connection, Status::Unknown, terms).await,
            Work::Refunds => refunds::lease_due(&mut connection, terms).await,
        };
        leased.context("leasing")
    }
}

impl Work {
    pub const ALL: [Self; 3] = [Self::Fresh, Self::Unknown, Self::Refunds];

    /// The crash point after the lease.
    const fn leased(self) -> &'static str {
        match self {
            Self::Fresh | Self::Unknown => "charge.leased",
            Self::Refunds => "refund.leased",
        }
    }
}

/// The crash points before, during and after a call.
const fn call_points(errand: &Errand) -> [&'static str; 3] {
    match errand {
        Errand::Charge { .. } | Errand::LookUp => {
            ["charge.sending", "charge.in_flight", "charge.answered"]
        }
        Errand::Cancel => ["cancel.sending", "cancel.in_flight", "cancel.answered"],
        Errand::Refund { .. } | Errand::LookUpRefund { .. } => {
            ["refund.sending", "refund.in_flight", "refund.answered"]
        }
    }
}

async fn call(
    psp: psp::Client,
    leased: Leased,
    permit: OwnedSemaphorePermit,
    answers: mpsc::Sender<Answered>,
) {
    let name = leased.errand.name();
    let mut span = Span::start(name, Kind::Client, leased.traceparent.as_deref());
    span.set("order.id", || leased.order_id.to_string());
    span.set("payment.attempt", || i64::from(leased.attempt));
    span.set("payment.try", || i64::from(leased.tries));
    span.set("idempotency.key", || leased.key());
    span.set("correlation_id", || leased.correlation_id.clone());
    metrics::gauge!(metric::CHARGES_IN_FLIGHT).increment(1);
    let started = Instant::now();
    let traceparent = span.traceparent();
    let [sending, in_flight, answered] = call_points(&leased.errand);
    crash::point(sending);
    let request = psp.run(&leased, traceparent.as_deref());
    let answer = crash::during(in_flight, request).await;
    crash::point(answered);
    metrics::gauge!(metric::CHARGES_IN_FLIGHT).decrement(1);
    if let Answer::Unknown { reason, .. } = &answer {
        span.fail(reason.clone());
        tracing::info!(
            call = name, order_id = %leased.order_id, attempt = leased.attempt,
            tries = leased.tries, correlation_id = leased.correlation_id, reason,
            "the outcome is unknown"
        );
    }
    let outcome = answer.name();
    span.set("payment.outcome", || outcome);
    metrics::counter!(metric::PSP_CALLS, "call" => name, "outcome" => outcome).increment(1);
    metrics::histogram!(metric::PSP_DURATION_SECONDS, "call" => name).record(started.elapsed());
    // The recorder is gone only when the process is: then the lease runs out.
    let _ = answers
        .send(Answered {
            leased,
            answer,
            span,
            _permit: permit,
        })
        .await;
}
