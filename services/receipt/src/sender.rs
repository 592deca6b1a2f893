//! The sender: leases due mails and sends them to the mail server.
//!
//! No transaction is open while a mail is sent. If a sender dies, its lease expires. Unlike a payment
//! provider, a mail server cannot be asked whether it accepted a mail. So the lease counts each try as a
//! try in doubt, and the number of tries in doubt limits the repeats.

mod floor;

use anyhow::Context as _;
use chrono::Utc;
use leases::{Clock, LeaseEnd, LeaseRequest, Work};
use lettre::message::{Mailbox, Message};
use money::{Currency, Money};
use service_kit::{crash, database};
use sqlx::PgPool;
use telemetry::{Kind, Span, metric};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::domain::mail::Mail;
use crate::domain::{AgeLimit, SendOutcome, Status, TRIES_IN_DOUBT_MAX, next};
use crate::smtp;
use crate::store::receipts::{self, Leased};
use floor::Floor;

/// The error stored with a mail whose last allowed try ended without a recorded outcome.
const GIVEN_UP: &str =
    "the last allowed try ended without a recorded outcome; the mail may have been delivered";
/// The reason of a try that did not start.
const LEASE_EXPIRED: &str = "the lease expired before the mail was sent";

pub struct Sender {
    pool: PgPool,
    smtp: smtp::Client,
    from: Mailbox,
    age_limit: AgeLimit,
    floor: Mutex<Floor>,
}

/// A leased mail, and the end of its lease.
pub struct DueMail {
    pub mail: Leased,
    pub lease_ends: LeaseEnd,
}

/// The outcome of one try. The span stays open until the outcome is recorded.
pub struct Tried {
    pub mail: Leased,
    pub outcome: SendOutcome,
    pub span: Span,
}

impl Sender {
    pub fn new(pool: PgPool, smtp: smtp::Client, from: Mailbox, age_limit: AgeLimit) -> Self {
        Self {
            pool,
            smtp,
            from,
            age_limit,
            floor: Mutex::new(Floor::new(Clock::default())),
        }
    }

    /// Replaces the clock of the floor, for tests.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        let floor = Mutex::new(Floor::new(clock));
        Self { floor, ..self }
    }
}

impl Work for Sender {
    type Row = DueMail;
    type Output = Tried;

    async fn lease(&self, request: LeaseRequest) -> anyhow::Result<Vec<DueMail>> {
        let lease_ends = request.ends;
        let mut connection = database::acquire(&self.pool).await.context("connecting")?;
        let floor = self.floor.lock().await.current(&mut connection).await?;
        let lease = receipts::Lease {
            token: request.token,
            lease: request.lease,
            limit: request.limit,
            floor,
            tries_in_doubt_max: TRIES_IN_DOUBT_MAX,
            given_up_reason: GIVEN_UP,
            cutoff: self.age_limit.cutoff(Utc::now()),
            released_since: self.age_limit.released_since(),
        };
        let taken = receipts::lease_due(&mut connection, lease)
            .await
            .context("leasing mails")?;
        for order_id in taken.given_up {
            tracing::error!(%order_id, "mail delivery unknown, no tries left");
        }
        for order_id in taken.held {
            tracing::warn!(%order_id, "mail held: its event is too old, or from before a restore");
        }
        let leased = taken.leased.into_iter();
        let due = |mail| DueMail {
            mail,
            lease_ends: lease_ends.clone(),
        };
        Ok(leased.map(due).collect())
    }

    fn leased(&self) {
        crash::point("receipt.leased");
    }

    async fn call(&self, due: DueMail) -> Tried {
        let DueMail { mail, lease_ends } = due;
        let (span, started) = (start_span(&mail), Instant::now());
        let outcome = match compose(&mail, &self.from) {
            Ok(message) => self.smtp.send(&message, &lease_ends).await,
            // The next try would fail in the same way.
            Err(error) => SendOutcome::PermanentFailure {
                reason: format!("{error:#}"),
            },
        };
        if outcome == SendOutcome::Accepted {
            // SMTP cannot close this window: the server has the mail, and only this process knows that.
            crash::point("receipt.sent");
        }
        finish(mail, outcome, span, started)
    }

    /// An expired lease is a result too: recording it removes this try from the tries in doubt.
    fn expired(&self, due: DueMail) -> Option<Tried> {
        let mail = due.mail;
        let outcome = SendOutcome::NotSent {
            reason: LEASE_EXPIRED.to_owned(),
        };
        let span = start_span(&mail);
        Some(finish(mail, outcome, span, Instant::now()))
    }

    fn next_try(&self, tried: &Tried) -> Option<DueMail> {
        let state = next(tried.mail.state(), &tried.outcome);
        (state.status == Status::Pending).then(|| DueMail {
            mail: tried.mail.next_try(state),
            lease_ends: LeaseEnd::never(),
        })
    }
}

fn start_span(mail: &Leased) -> Span {
    let mut span = Span::start("SMTP receipt", Kind::Client, mail.traceparent.as_deref());
    span.set("order.id", || mail.order_id.to_string());
    span.set("payment.attempt", || i64::from(mail.attempt));
    span.set("receipt.mail_type", || mail.mail_type.clone());
    span.set("receipt.event_id", || mail.event_id.to_string());
    span.set("receipt.try", || i64::from(mail.tries));
    span.set("correlation_id", || mail.correlation_id.clone());
    span
}

fn finish(mail: Leased, outcome: SendOutcome, mut span: Span, started: Instant) -> Tried {
    if let Some(reason) = outcome.reason() {
        span.fail(reason.to_owned());
        tracing::info!(
            order_id = %mail.order_id, mail_type = mail.mail_type, tries = mail.tries,
            correlation_id = mail.correlation_id, outcome = outcome.as_str(), reason,
            "mail was not accepted"
        );
    }
    span.set("receipt.outcome", || outcome.as_str());
    metrics::counter!(metric::RECEIPT_TRIES, "outcome" => outcome.as_str()).increment(1);
    metrics::histogram!(metric::SMTP_DURATION_SECONDS).record(started.elapsed());
    Tried {
        mail,
        outcome,
        span,
    }
}

fn compose(mail: &Leased, from: &Mailbox) -> anyhow::Result<Message> {
    let amount = match (mail.amount, &mail.currency) {
        (Some(amount), Some(currency)) => Some(Money::new(amount, Currency::parse(currency)?)?),
        _ => None,
    };
    let content = Mail {
        mail_type: mail.mail_type.parse()?,
        event_id: mail.event_id,
        order_id: mail.order_id,
        recipient: mail.recipient.clone(),
        amount,
        lines: serde_json::from_value(mail.lines.clone()).context("reading the lines")?,
        reason: mail.reason.clone(),
        correlation_id: mail.correlation_id.clone(),
        created_at: mail.created_at,
    };
    content.message(from)
}
