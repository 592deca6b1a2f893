//! The mail. The same row always gives the same bytes, so that servers can recognise a repeat.

mod text;

use std::time::SystemTime;

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use events::Line;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use money::Money;
use uuid::Uuid;

use crate::domain::MailType;

/// Links the mail to our logs and traces.
const CORRELATION_ID: HeaderName = HeaderName::new_from_ascii_str("X-Correlation-Id");
/// Stops automatic responses such as out-of-office notes (RFC 3834).
const AUTO_SUBMITTED: HeaderName = HeaderName::new_from_ascii_str("Auto-Submitted");

/// The content of a mail.
#[derive(Clone, Debug)]
pub struct Mail {
    pub mail_type: MailType,
    pub event_id: Uuid,
    pub order_id: Uuid,
    pub recipient: String,
    /// What was paid, not paid or refunded. `None` if nothing was charged, or if an old event does not
    /// name it.
    pub amount: Option<Money>,
    /// Only for a receipt.
    pub lines: Vec<Line>,
    /// Why the order does not ship.
    pub reason: Option<String>,
    pub correlation_id: String,
    pub created_at: DateTime<Utc>,
}

impl Mail {
    pub fn message(&self, from: &Mailbox) -> anyhow::Result<Message> {
        let to = self.recipient.parse().context("parsing the recipient")?;
        Message::builder()
            .message_id(Some(self.message_id(from)))
            .date(SystemTime::from(self.created_at))
            .from(from.clone())
            .to(Mailbox::new(None, to))
            .subject(text::subject(self))
            .raw_header(HeaderValue::new(
                CORRELATION_ID,
                visible(&self.correlation_id),
            ))
            .raw_header(HeaderValue::new(
                AUTO_SUBMITTED,
                "auto-generated".to_owned(),
            ))
            .header(ContentType::TEXT_PLAIN)
            .body(text::body(self))
            .context("composing the mail")
    }

    /// Derived from the event id, so a repeat has the same Message-ID. Mail servers and clients that
    /// compare it show one mail if two arrive.
    fn message_id(&self, from: &Mailbox) -> String {
        format!("<{}@{}>", self.event_id, from.email.domain())
    }
}

/// Keeps only characters that are safe in a header value. Clients choose the correlation id.
fn visible(text: &str) -> String {
    text.chars()
        .filter(char::is_ascii_graphic)
        .take(telemetry::context::CORRELATION_ID_LEN_MAX)
        .collect()
}

#[cfg(test)]
mod tests;
