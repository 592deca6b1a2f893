//! The mail. The same row always gives the same bytes, so that servers can recognise a repeat.

use std::fmt::Write as _;
use std::time::SystemTime;

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use events::Line;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use money::Money;
use uuid::Uuid;

/// Links the mail to our logs and traces.
const CORRELATION_ID: HeaderName = HeaderName::new_from_ascii_str("X-Correlation-Id");
/// Stops automatic responses such as out-of-office notes (RFC 3834).
const AUTO_SUBMITTED: HeaderName = HeaderName::new_from_ascii_str("Auto-Submitted");

/// The content of a receipt.
#[derive(Clone, Debug)]
pub struct Receipt {
    pub event_id: Uuid,
    pub order_id: Uuid,
    pub recipient: String,
    pub paid: Money,
    pub lines: Vec<Line>,
    pub correlation_id: String,
    pub created_at: DateTime<Utc>,
}

impl Receipt {
    pub fn mail(&self, from: &Mailbox) -> anyhow::Result<Message> {
        let to = self.recipient.parse().context("parsing the recipient")?;
        Message::builder()
            .message_id(Some(self.message_id(from)))
            .date(SystemTime::from(self.created_at))
            .from(from.clone())
            .to(Mailbox::new(None, to))
            .subject(format!("Your receipt for order {}", self.order_id))
            .raw_header(HeaderValue::new(
                CORRELATION_ID,
                visible(&self.correlation_id),
            ))
            .raw_header(HeaderValue::new(
                AUTO_SUBMITTED,
                "auto-generated".to_owned(),
            ))
            .header(ContentType::TEXT_PLAIN)
            .body(self.text())
            .context("composing the mail")
    }

    /// Derived from the event id, so a repeat has the same Message-ID. Mail servers and clients that
    /// compare it show one mail if two arrive.
    fn message_id(&self, from: &Mailbox) -> String {
        format!("<{}@{}>", self.event_id, from.email.domain())
    }

    fn text(&self) -> String {
        let mut text = format!(
            "Thank you for your order.\n\nOrder:  {}\nPaid:   {}\n\n",
            self.order_id, self.paid
        );
        for line in &self.lines {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:>6} x {}", line.quantity, on_one_line(&line.sku));
        }
        text
    }
}

/// Keeps only characters that are safe in a header value. Clients choose the correlation id.
fn visible(text: &str) -> String {
    text.chars()
        .filter(char::is_ascii_graphic)
        .take(telemetry::context::CORRELATION_ID_LEN_MAX)
        .collect()
}

fn on_one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipt() -> Receipt {
        Receipt {
            event_id: Uuid::from_u128(1),
            order_id: Uuid::from_u128(2),
            recipient: "cust-88@customers.example".to_owned(),
            paid: Money::new(5_000, "USD".parse().unwrap()).unwrap(),
            lines: vec![Line {
                sku: "SKU-99".to_owned(),
                quantity: 2,
            }],
            correlation_id: "corr-1".to_owned(),
            created_at: DateTime::UNIX_EPOCH,
        }
    }

    fn text_of(receipt: &Receipt) -> String {
        let from = "ChargeOnce <receipts@shop.example>".parse().unwrap();
        let mail = receipt.mail(&from).unwrap();
        String::from_utf8(mail.formatted()).unwrap()
    }

    #[test]
    fn mail_names_order_amount_and_lines() {
        let expected = "\
            Message-ID: <00000000-0000-0000-0000-000000000001@shop.example>\r\n\
            Date: Thu, 01 Jan 1970 00:00:00 +0000\r\n\
            From: ChargeOnce <receipts@shop.example>\r\n\
            To: cust-88@customers.example\r\n\
            Subject: Your receipt for order 00000000-0000-0000-0000-000000000002\r\n\
            X-Correlation-Id: corr-1\r\n\
            Auto-Submitted: auto-generated\r\n\
            Content-Type: text/plain; charset=utf-8\r\n\
            Content-Transfer-Encoding: 7bit\r\n\
            \r\n\
            Thank you for your order.\r\n\
            \r\n\
            Order:  00000000-0000-0000-0000-000000000002\r\n\
            Paid:   50.00 USD\r\n\
            \r\n     \
                 2 x SKU-99\r\n";
        assert_eq!(text_of(&receipt()), expected);
    }

    #[test]
    fn repeat_has_the_same_bytes() {
        assert_eq!(text_of(&receipt()), text_of(&receipt()));
    }

    #[test]
    fn hostile_text_adds_no_header_and_no_line() {
        let mut hostile = receipt();
        hostile.correlation_id = "a\r\nBcc: b@evil.example".to_owned();
        hostile.lines[0].sku = "SKU\r\n.\r\nMAIL FROM:<>".to_owned();
        let text = text_of(&hostile);
        assert!(text.contains("X-Correlation-Id: aBcc:b@evil.example\r\n"));
        assert!(!text.lines().any(|line| line.starts_with("Bcc")));
        assert!(text.contains("2 x SKU  .  MAIL FROM:<>\r\n"), "{text}");
    }

    /// The dialogue uses no SMTP extension, so the mail must be 7-bit.
    #[test]
    fn every_mail_is_sent_as_plain_ascii() {
        let mut foreign = receipt();
        foreign.lines[0].sku = "Größe 38, 靴".repeat(100);
        let text = text_of(&foreign);
        assert!(text.is_ascii(), "{text}");
        assert!(text.lines().all(|line| line.len() <= 998));
    }

    #[test]
    fn invalid_recipient_is_an_error() {
        let mut bad = receipt();
        bad.recipient = "a@b\r\nBcc: c@d".to_owned();
        assert!(bad.mail(&"receipts@shop.example".parse().unwrap()).is_err());
    }
}
