//! The sender: leases due mails and sends them to the mail server.
//!
//! No transaction is open while a mail is sent. If a sender dies, its lease expires. Unlike a payment
//! provider, a mail server cannot be asked whether it accepted a mail. So the lease counts each try as a
//! try in doubt, and the number of tries in doubt limits the repeats.

use std::time::Instant;

use anyhow::Context as _;
use leases::{LeaseRequest, Work};
use lettre::message::{Mailbox, Message};
use money::{Currency, Money};
use service_kit::{crash, database};
use sqlx::PgPool;
use telemetry::{Kind, Span, metric};

use crate::domain::mail::Receipt;
use crate::domain::{SendOutcome, TRIES_IN_DOUBT_MAX};
use crate::smtp;
use crate::store::receipts::{self, Leased};

/// The error stored with a mail whose last allowed try ended without a recorded outcome.
const GIVEN_UP: &str =
    "the last allowed try ended without a recorded outcome; the mail may have been delivered";
/// The reason of a try that did not start.
const LEASE_EXPIRED: &str = "the lease expired before the mail was sent";

pub struct Sender {
    pub pool: PgPool,
    pub smtp: smtp::Client,
    pub from: Mailbox,
}

/// The outcome of one try. The span stays open until the outcome is recorded.
pub struct Tried {
    pub mail: Leased,
    pub outcome: SendOutcome,
    pub span: Span,
}

impl Work for Sender {
    type Row = Leased;
    type Output = Tried;

    async fn lease(&self, request: LeaseRequest) -> anyhow::Result<Vec<Leased>> {
        let LeaseRequest {
            token,
            lease,
            limit,
            ..
        } = request;
        let mut connection = database::acquire(&self.pool).await.context("connecting")?;
        let leased = receipts::lease_due(&mut connection, token, lease, TRIES_IN_DOUBT_MAX, limit)
            .await
            .context("leasing mails")?;
        if (leased.len() as i64) < limit {
            // Nothing else is due: close the mails that may not be sent again.
            let given_up = receipts::give_up(&mut connection, TRIES_IN_DOUBT_MAX, GIVEN_UP)
                .await
                .context("giving up on mails")?;
            for order_id in given_up {
                tracing::error!(%order_id, "receipt delivery unknown, no tries left");
            }
        }
        Ok(leased)
    }

    fn leased(&self) {
        crash::point("receipt.leased");
    }

    async fn call(&self, mail: Leased) -> Tried {
        let (span, started) = (start_span(&mail), Instant::now());
        let outcome = match compose(&mail, &self.from) {
            Ok(message) => self.smtp.send(&message).await,
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
    fn expired(&self, mail: Leased) -> Option<Tried> {
        let outcome = SendOutcome::NotSent {
            reason: LEASE_EXPIRED.to_owned(),
        };
        let span = start_span(&mail);
        Some(finish(mail, outcome, span, Instant::now()))
    }
}

fn start_span(mail: &Leased) -> Span {
    let mut span = Span::start("SMTP receipt", Kind::Client, mail.traceparent.as_deref());
    span.set("order.id", || mail.order_id.to_string());
    span.set("payment.attempt", || i64::from(mail.attempt));
    span.set("receipt.event_id", || mail.event_id.to_string());
    span.set("receipt.try", || i64::from(mail.tries));
    span.set("correlation_id", || mail.correlation_id.clone());
    span
}

fn finish(mail: Leased, outcome: SendOutcome, mut span: Span, started: Instant) -> Tried {
    if let Some(reason) = outcome.reason() {
        span.fail(reason.to_owned());
        tracing::info!(
            order_id = %mail.order_id, tries = mail.tries, correlation_id = mail.correlation_id,
            outcome = outcome.as_str(), reason, "receipt was not accepted"
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
