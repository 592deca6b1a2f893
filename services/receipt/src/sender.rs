//! The sender: leases due mails, talks to the mail server, hands the outcomes to the recorder.
//!
//! No transaction is open during a dialogue. A sender that dies leaves a lease that runs out. Unlike
//! a payment provider, a mail server cannot be asked what became of the mail: the lease has counted
//! the try as one that may have delivered, and that count, not the server, limits the repeats.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use lettre::message::{Mailbox, Message};
use money::{Currency, Money};
use service_kit::{crash, database, min_interval};
use sqlx::{PgConnection, PgPool};
use telemetry::{Kind, Span, metric};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::domain::mail::Receipt;
use crate::domain::{SendOutcome, TRIES_IN_DOUBT_MAX};
use crate::smtp;
use crate::store::receipts::{self, Leased};

/// Least time from one lease to the next: under load more are taken at once.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// Longest wait for the database, whatever became of it.
const DATABASE_TIMEOUT: Duration = Duration::from_secs(15);
/// Pause after the database could not be asked.
const FAILURE_PAUSE: Duration = Duration::from_millis(500);
/// What the log says of a mail whose last allowed try ended without a word.
const GIVEN_UP: &str =
    "the sender was lost after it may have sent the mail, as often as is allowed";

/// An outcome on its way to the database. The permit keeps the mail counted as in flight, and the
/// span open, until it is recorded.
pub struct Tried {
    pub mail: Leased,
    pub outcome: SendOutcome,
    pub span: Span,
    /// Until then nobody else may send the mail.
    pub lease_ends: Instant,
    _permit: OwnedSemaphorePermit,
}

pub struct Sender {
    pub pool: PgPool,
    pub smtp: Arc<smtp::Client>,
    pub from: Mailbox,
    pub lease: Duration,
    pub poll: Duration,
    pub connections_max: usize,
    /// Told when mails became due.
    pub due: Arc<Notify>,
    pub outcomes: mpsc::Sender<Tried>,
}

impl Sender {
    pub async fn run(self, shutdown: CancellationToken) -> anyhow::Result<()> {
        let slots = Arc::new(Semaphore::new(self.connections_max));
        let mut batches = min_interval(MIN_INTERVAL);
        while !shutdown.is_cancelled() {
            batches.tick().await;
            let pause = tokio::select! {
                step = self.lease_and_send(&slots) => match step {
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
        // Dialogues that are under way go on: each holds a sender, and the recorder waits for the
        // last.
        Ok(())
    }

    /// One step: leases as many mails as there are free connections and starts their dialogues.
    /// Returns how many.
    pub async fn lease_and_send(&self, slots: &Arc<Semaphore>) -> anyhow::Result<usize> {
        let first = slots.clone().acquire_owned().await?;
        let mut permits = vec![first];
        while let Ok(permit) = slots.clone().try_acquire_owned() {
            permits.push(permit);
        }
        let mut connection = database::acquire(&self.pool).await.context("connecting")?;
        // From before the lease began, so that it ends here first.
        let asked_at = Instant::now();
        let leasing = self.lease(&mut connection, permits.len());
        let leased = tokio::time::timeout(DATABASE_TIMEOUT, leasing)
            .await
            .context("the database does not answer")??;
        drop(connection);
        let count = leased.len();
        if count > 0 {
            crash::point("receipt.leased");
        }
        for (mail, permit) in leased.into_iter().zip(permits) {
            let lease_ends = asked_at + self.lease;
            tokio::spawn(send(
                self.smtp.clone(),
                self.from.clone(),
                mail,
                lease_ends,
                permit,
                self.outcomes.clone(),
            ));
        }
        Ok(count)
    }

    async fn lease(
        &self,
        connection: &mut PgConnection,
        count_max: usize,
    ) -> anyhow::Result<Vec<Leased>> {
        // One token for the batch: it tells this lease from any other of the same mail.
        let token = Uuid::new_v4();
        let limit = count_max as i64;
        let leased = receipts::lease_due(connection, token, self.lease, TRIES_IN_DOUBT_MAX, limit)
            .await
            .context("leasing mails")?;
        if leased.len() < count_max {
            // Nothing else is due: time for those that may not be sent again.
            let lost = receipts::give_up(connection, TRIES_IN_DOUBT_MAX, GIVEN_UP)
                .await
                .context("giving mails up")?;
            for order_id in lost {
                tracing::error!(%order_id, "nobody knows whether the receipt was sent");
            }
        }
        Ok(leased)
    }
}

async fn send(
    smtp: Arc<smtp::Client>,
    from: Mailbox,
    mail: Leased,
    lease_ends: Instant,
    permit: OwnedSemaphorePermit,
    outcomes: mpsc::Sender<Tried>,
) {
    let mut span = Span::start("SMTP receipt", Kind::Client, mail.traceparent.as_deref());
    span.set("order.id", || mail.order_id.to_string());
    span.set("payment.attempt", || i64::from(mail.attempt));
    span.set("receipt.event_id", || mail.event_id.to_string());
    span.set("receipt.try", || i64::from(mail.tries));
    span.set("correlation_id", || mail.correlation_id.clone());
    let started = Instant::now();
    let outcome = match compose(&mail, &from) {
        // A process that was paused here has lost its lease: another may be at it.
        Ok(_) if started >= lease_ends => SendOutcome::NotSent {
            reason: "the lease ran out before the dialogue began".to_owned(),
        },
        Ok(message) => smtp.send(&message).await,
        // It will not come out better next time.
        Err(error) => SendOutcome::PermanentFailure {
            reason: format!("{error:#}"),
        },
    };
    if outcome == SendOutcome::Accepted {
        // The one window that SMTP leaves open: the server has the mail, and only we know.
        crash::point("receipt.sent");
    }
    if let Some(reason) = outcome.reason() {
        span.fail(reason.to_owned());
        tracing::info!(
            order_id = %mail.order_id, tries = mail.tries, correlation_id = mail.correlation_id,
            outcome = outcome.as_str(), reason, "the receipt was not accepted"
        );
    }
    span.set("receipt.outcome", || outcome.as_str());
    metrics::counter!(metric::RECEIPT_TRIES, "outcome" => outcome.as_str()).increment(1);
    metrics::histogram!(metric::SMTP_DURATION_SECONDS).record(started.elapsed());
    // The recorder is gone only when the process is: then the lease runs out.
    let _ = outcomes
        .send(Tried {
            mail,
            outcome,
            span,
            lease_ends,
            _permit: permit,
        })
        .await;
}

fn compose(mail: &Leased, from: &Mailbox) -> anyhow::Result<Message> {
    let receipt = Receipt {
        event_id: mail.event_id,
        order_id: mail.order_id,
        recipient: mail.recipient.clone(),
        paid: Money::new(mail.amount, Currency::parse(&mail.currency)?)?,
        lines: serde_json::from_value(mail.lines.clone()).context("reading the lines")?,
        correlation_id: mail.correlation_id.clone(),
        created_at: mail.created_at,
    };
    receipt.mail(from)
}
