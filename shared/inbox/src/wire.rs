//! A message as it stood in the topic: what is read now, and what is kept to be read again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

use chrono::{DateTime, Utc};
use events::{Envelope, EventType, header};
use rdkafka::Message as _;
use rdkafka::message::{BorrowedMessage, Headers as _};
use thiserror::Error;
use uuid::Uuid;

/// Namespace of the identities of messages that have no readable id; it may never change.
const NAMESPACE: Uuid = Uuid::from_u128(0x2f0c_8d5e_91b7_4a63_8e1d_5b7a_c0d4_36f2);

#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{part} of the message is missing or malformed")]
pub struct Undecodable {
    part: &'static str,
}

/// Where a message stood in the topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
}

impl Position {
    pub(crate) fn of(message: &BorrowedMessage<'_>) -> Self {
        Self {
            partition: message.partition(),
            offset: message.offset(),
        }
    }
}

/// Key, headers and payload, byte by byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wire {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(crate) payload: Option<Vec<u8>>,
}

/// The type of a message, read from its header alone: most messages are for somebody else. `None`
/// for a type that this version does not know, and so cannot be waiting for.
pub(crate) fn event_type(message: &BorrowedMessage<'_>) -> Result<Option<EventType>, Undecodable> {
    let find = || {
        let headers = message.headers()?;
        let found = headers.iter().find(|header| header.key == header::TYPE)?;
        let name = std::str::from_utf8(found.value?).ok()?;
        Some(EventType::from_str(name).ok())
    };
    unless_it_panics(find)
        .flatten()
        .ok_or(Undecodable { part: header::TYPE })
}

impl Wire {
    pub(crate) fn of(message: &BorrowedMessage<'_>) -> Self {
        let headers = unless_it_panics(|| {
            let headers = message.headers()?.iter();
            let owned = headers.map(|it| (it.key.to_owned(), it.value.map(<[u8]>::to_vec)));
            Some(owned.collect())
        });
        Self {
            key: message.key().map(<[u8]>::to_vec),
            headers: headers.flatten().unwrap_or_default(),
            payload: message.payload().map(<[u8]>::to_vec),
        }
    }

    /// The type as the header names it, for people; it need not be one that anybody knows.
    pub(crate) fn event_type_text(&self) -> Option<&str> {
        self.text(header::TYPE)
    }

    /// As [`event_type`], of a message that was kept.
    pub(crate) fn event_type(&self) -> Result<Option<EventType>, Undecodable> {
        let name = self.event_type_text();
        name.map(|name| EventType::from_str(name).ok())
            .ok_or(Undecodable { part: header::TYPE })
    }

    /// Whose message it is: what the header says, or else the key, which is the same by contract.
    pub(crate) fn subject(&self) -> Option<Uuid> {
        let from_key = || std::str::from_utf8(self.key.as_deref()?).ok()?.parse().ok();
        self.read(header::SUBJECT).ok().or_else(from_key)
    }

    pub(crate) fn message_id(&self) -> Option<Uuid> {
        self.read(header::ID).ok()
    }

    /// Reads the message. The payload moves into the envelope; it is the larger part.
    pub(crate) fn open(&mut self, event_type: EventType) -> Result<Envelope, Undecodable> {
        let mut envelope = Envelope {
            id: self.read::<Uuid>(header::ID)?,
            event_type,
            source: self.read(header::SOURCE)?,
            subject: self.read::<Uuid>(header::SUBJECT)?,
            time: self.read::<DateTime<Utc>>(header::TIME)?,
            correlation_id: self.read(header::CORRELATION_ID)?,
            traceparent: self.text(header::TRACEPARENT).map(str::to_owned),
            payload: String::new(),
        };
        let missing = Undecodable { part: "payload" };
        let bytes = self.payload.take().ok_or(missing.clone())?;
        match String::from_utf8(bytes) {
            Ok(payload) => envelope.payload = payload,
            Err(error) => {
                self.payload = Some(error.into_bytes());
                return Err(missing);
            }
        }
        Ok(envelope)
    }

    /// Recognises a message that cannot be read when it comes again. The trace is left out: a
    /// re-publication has another one.
    pub(crate) fn identity(&self) -> Uuid {
        let mut content = Vec::new();
        let mut add = |bytes: Option<&[u8]>| {
            // The length keeps two parts apart, and "empty" from "absent".
            let length = bytes.map_or(-1, |bytes| bytes.len() as i64);
            content.extend_from_slice(&length.to_be_bytes());
            content.extend_from_slice(bytes.unwrap_or_default());
        };
        add(self.key.as_deref());
        add(self.payload.as_deref());
        let stable = self.headers.iter();
        for (name, value) in stable.filter(|(name, _)| name != header::TRACEPARENT) {
            add(Some(name.as_bytes()));
            add(value.as_deref());
        }
        Uuid::new_v5(&NAMESPACE, &content)
    }

    fn read<T: FromStr>(&self, part: &'static str) -> Result<T, Undecodable> {
        self.text(part)
            .and_then(|value| value.parse().ok())
            .ok_or(Undecodable { part })
    }

    fn text(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(key, _)| key == name)?;
        std::str::from_utf8(value.as_deref()?).ok()
    }
}

/// The client library panics on a header name that is not UTF-8. Such a message must not end the
/// consumer, again with every restart.
fn unless_it_panics<T>(read: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(read)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(headers: &[(&str, &str)], payload: &str) -> Wire {
        let owned = |(name, value): &(&str, &str)| {
            let value = Some(value.as_bytes().to_vec());
            ((*name).to_owned(), value)
        };
        Wire {
            key: None,
            headers: headers.iter().map(owned).collect(),
            payload: Some(payload.as_bytes().to_vec()),
        }
    }

    #[test]
    fn an_unreadable_message_is_recognised_by_its_content_and_not_by_its_trace() {
        let first = wire(&[("a", "bc"), ("traceparent", "1")], "x");
        let again = wire(&[("a", "bc"), ("traceparent", "2")], "x");
        assert_eq!(first.identity(), again.identity());
        for other in [
            wire(&[("a", "bc")], "y"),
            wire(&[("ab", "c")], "x"),
            wire(&[("a", "bc"), ("d", "")], "x"),
            Wire::default(),
        ] {
            assert_ne!(first.identity(), other.identity(), "{other:?}");
        }
    }

    #[test]
    fn the_subject_is_what_the_header_says_or_else_the_key() {
        let order = Uuid::new_v4();
        let mut message = wire(&[], "");
        assert_eq!(message.subject(), None);
        message.key = Some(order.to_string().into_bytes());
        assert_eq!(message.subject(), Some(order));
        let named = Uuid::new_v4();
        let value = Some(named.to_string().into_bytes());
        message.headers.push((header::SUBJECT.to_owned(), value));
        assert_eq!(message.subject(), Some(named));
    }

    #[test]
    fn a_message_that_cannot_be_opened_keeps_its_payload() {
        let mut message = wire(&[], "kept");
        assert!(message.open(EventType::OrderPlaced).is_err());
        assert_eq!(message.payload.as_deref(), Some("kept".as_bytes()));
    }
}
