//! Logs a mail for each event that a customer must know about. Nothing is sent here: a slow mail server
//! must block neither a partition nor a transaction.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context as _;
use chrono::Utc;
use events::{
    Event, EventType, Line, OrderCancelled, OrderPaymentFailed, PaymentCaptured, PaymentDeclined,
    PaymentRefunded, PaymentVoided,
};
use inbox::{Delivery, Handler};
use leases::{Reservation, Starter};
use money::Money;
use sqlx::PgConnection;
use telemetry::metric;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::domain::{AgeLimit, MailType, Recipients, Status};
use crate::sender::{DueMail, Sender};
use crate::store::receipts::{self, NewLease, NewMail};

pub struct LogMails {
    recipients: Recipients,
    age_limit: AgeLimit,
    /// Wakes the sender.
    due: Arc<Notify>,
    /// Starts to send new mails in free slots.
    starter: Starter<Sender>,
}

/// The mails of a batch.
pub struct Logged {
    /// The slots that the batch reserved.
    reservation: Reservation,
    /// The mails that it leased, each with its place in the batch.
    leased: Vec<(usize, DueMail)>,
    /// Events whose customer is not known. They count once they are committed: a batch that fails is handled again.
    without_customer: u64,
}

/// What an event says to the customer of its order.
struct Announcement {
    order_id: Uuid,
    attempt: i32,
    mail_type: MailType,
    /// `None` if an old event does not name the customer.
    customer_id: Option<String>,
    amount: Option<Money>,
    lines: Vec<Line>,
    reason: Option<String>,
}

impl LogMails {
    pub fn new(
        recipients: Recipients,
        age_limit: AgeLimit,
        due: Arc<Notify>,
        starter: Starter<Sender>,
    ) -> Self {
        metrics::counter!(metric::MAILS_WITHOUT_CUSTOMER).increment(0);
        Self {
            recipients,
            age_limit,
            due,
            starter,
        }
    }

    /// Logs the mails. Those that find a free slot are leased by this process.
    async fn log(&self, tx: &mut PgConnection, mails: Vec<NewMail>) -> sqlx::Result<Logged> {
        let reservation = self.starter.reserve(mails.iter().map(|new| {
            let is_sent = new.status == Status::Pending;
            is_sent.then_some("")
        }));
        let lease = NewLease {
            token: reservation.token,
            lease: reservation.lease,
            mails: &reservation.leased(),
        };
        let mut logged_at = receipts::log(tx, &mails, Some(&lease)).await?;
        let mut leased = Vec::with_capacity(logged_at.len());
        for (at, new) in mails.into_iter().enumerate() {
            let id = (new.event_id, new.mail_type.as_str().to_owned());
            if let Some(logged_at) = logged_at.remove(&id) {
                let due = DueMail {
                    mail: new.leased(reservation.token, logged_at),
                    lease_ends: reservation.ends.clone(),
                };
                leased.push((at, due));
            }
        }
        Ok(Logged {
            reservation,
            leased,
            without_customer: 0,
        })
    }
}

impl Handler for LogMails {
    type AfterCommit = Logged;

    fn wants(&self, event_type: EventType) -> bool {
        MailType::of(event_type).is_some()
    }

    async fn handle(&self, tx: &mut PgConnection, new: &[&Delivery]) -> anyhow::Result<Logged> {
        let (mut mails, mut unaddressed) = (Vec::with_capacity(new.len()), Vec::new());
        for delivery in new {
            let announcement = read(delivery)?;
            match &announcement.customer_id {
                Some(customer_id) => {
                    let recipient = self.recipients.of(customer_id);
                    mails.push(announcement.mail(delivery, recipient, self.age_limit)?);
                }
                None => unaddressed.push((*delivery, announcement)),
            }
        }
        let mut logged = self.log(tx, mails).await.context("logging mails")?;
        logged.without_customer = log_unaddressed(tx, unaddressed, self.age_limit).await?;
        Ok(logged)
    }

    fn committed(&self, batches: Vec<Logged>) {
        for logged in batches {
            metrics::counter!(metric::MAILS_WITHOUT_CUSTOMER).increment(logged.without_customer);
            self.starter.start(logged.reservation, logged.leased);
        }
        self.due.notify_one();
    }
}

/// Logs mails to the recipient of an earlier mail of the same order. Returns for how many there is
/// none.
async fn log_unaddressed(
    tx: &mut PgConnection,
    unaddressed: Vec<(&Delivery, Announcement)>,
    age_limit: AgeLimit,
) -> anyhow::Result<u64> {
    if unaddressed.is_empty() {
        return Ok(0);
    }
    let orders: Vec<Uuid> = unaddressed.iter().map(|(_, it)| it.order_id).collect();
    let known = receipts::recipients(tx, &orders).await;
    let known: HashMap<Uuid, String> = known.context("looking up recipients")?;
    let (mut mails, mut without_customer) = (Vec::new(), 0);
    for (delivery, announcement) in unaddressed {
        let order_id = announcement.order_id;
        match known.get(&order_id) {
            Some(recipient) => {
                mails.push(announcement.mail(delivery, recipient.clone(), age_limit)?);
            }
            None => {
                let mail_type = announcement.mail_type.as_str();
                tracing::warn!(%order_id, mail_type, "no mail: the customer is not known");
                without_customer += 1;
            }
        }
    }
    receipts::log(tx, &mails, None)
        .await
        .context("logging mails")?;
    Ok(without_customer)
}

impl Announcement {
    fn mail(
        self,
        delivery: &Delivery,
        recipient: String,
        age_limit: AgeLimit,
    ) -> anyhow::Result<NewMail> {
        let event_time = delivery.envelope.time;
        Ok(NewMail {
            event_time,
            status: age_limit.status_of_new(event_time, Utc::now()),
            event_id: delivery.envelope.id,
            mail_type: self.mail_type,
            order_id: self.order_id,
            attempt: self.attempt,
            recipient,
            amount: self.amount,
            lines: serde_json::to_value(&self.lines)?,
            reason: self.reason,
            correlation_id: delivery.envelope.correlation_id.clone(),
            traceparent: delivery.traceparent(),
        })
    }
}

fn read(delivery: &Delivery) -> anyhow::Result<Announcement> {
    let event_type = delivery.envelope.event_type;
    let mail_type =
        MailType::of(event_type).with_context(|| format!("unexpected event type {event_type}"))?;
    Ok(match mail_type {
        MailType::Receipt => {
            let event: PaymentCaptured = open(delivery)?;
            let mut announcement = announcement(&event, mail_type);
            // An event without a customer goes to the default address.
            announcement.customer_id = Some(event.customer_id);
            announcement.amount = Some(Money::new(event.amount, event.currency)?);
            announcement.lines = event.lines;
            announcement
        }
        MailType::Decline => {
            let event: PaymentDeclined = open(delivery)?;
            let mut announcement = announcement(&event, mail_type);
            announcement.customer_id = non_empty(event.customer_id);
            announcement.amount = event.due;
            announcement
        }
        MailType::PaymentFailure => {
            let event: OrderPaymentFailed = open(delivery)?;
            let mut announcement = announcement(&event, mail_type);
            announcement.customer_id = non_empty(event.customer_id);
            announcement.amount = Some(event.due);
            announcement
        }
        MailType::Cancellation if event_type == EventType::OrderCancelled => {
            let event: OrderCancelled = open(delivery)?;
            let mut announcement = announcement(&event, mail_type);
            announcement.customer_id = non_empty(event.customer_id);
            announcement.reason = non_empty(event.reason);
            announcement
        }
        MailType::Cancellation => {
            let event: PaymentVoided = open(delivery)?;
            let mut announcement = announcement(&event, mail_type);
            announcement.customer_id = non_empty(event.customer_id);
            announcement.reason = non_empty(event.reason);
            announcement
        }
        MailType::Refund => {
            let event: PaymentRefunded = open(delivery)?;
            let mut announcement = announcement(&event, mail_type);
            announcement.customer_id = non_empty(event.customer_id);
            announcement.amount = Some(Money::new(event.amount, event.currency)?);
            announcement.reason = non_empty(event.reason);
            announcement
        }
    })
}

/// An announcement that names only the order.
fn announcement<E: Event>(event: &E, mail_type: MailType) -> Announcement {
    Announcement {
        order_id: event.order_id(),
        attempt: event.attempt(),
        mail_type,
        customer_id: None,
        amount: None,
        lines: Vec::new(),
        reason: None,
    }
}

fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn open<E: Event>(delivery: &Delivery) -> anyhow::Result<E> {
    let envelope = &delivery.envelope;
    envelope
        .open()
        .with_context(|| format!("decoding {}", envelope.event_type))
}
