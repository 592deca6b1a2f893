//! A message exactly as Kafka delivered it, and how it is decoded. Parked messages are stored in
//! this form and decoded again later.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;

use chrono::{DateTime, Utc};
use events::{Envelope, EventType, header};
use rdkafka::Message as _;
use rdkafka::message::{BorrowedMessage, Headers as _};
use thiserror::Error;
use uuid::Uuid;

/// Namespace of the identities of unreadable messages; it may never change.
const NAMESPACE: Uuid = Uuid::from_u128(0x2f0c_8d5e_91b7_4a63_8e1d_5b7a_c0d4_36f2);

/// Key, headers and payload, as bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawMessage {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    pub(crate) payload: Option<Vec<u8>>,
}

/// Where a message is in the topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
}

/// Why a message is unreadable.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{part} of the message is missing or malformed")]
pub(crate) struct DecodeError {
    part: &'static str,
}

/// The type of a message, read from its header alone, because most messages are not wanted. `None`
/// for a type that this version does not know and therefore does not handle.
pub(crate) fn event_type(message: &BorrowedMessage<'_>) -> Result<Option<EventType>, DecodeError> {
    let find = || Some(EventType::from_str(header_text(message, header::TYPE)?).ok());
    unless_it_panics(find)
        .flatten()
        .ok_or(DecodeError { part: header::TYPE })
}

/// The event id of a message, read from its header alone.
pub(crate) fn event_id(message: &BorrowedMessage<'_>) -> Option<Uuid> {
    unless_it_panics(|| header_text(message, header::ID)?.parse().ok()).flatten()
}

fn header_text<'a>(message: &'a BorrowedMessage<'_>, name: &str) -> Option<&'a str> {
    let headers = message.headers()?;
    let found = headers.iter().find(|header| header.key == name)?;
    std::str::from_utf8(found.value?).ok()
}

impl RawMessage {
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

    /// The type as the header names it, for operators. It may be a type that this version does not
    /// know.
    pub(crate) fn event_type_text(&self) -> Option<&str> {
        self.text(header::TYPE)
    }

    /// Like [`event_type`], for a stored message.
    pub(crate) fn event_type(&self) -> Result<Option<EventType>, DecodeError> {
        let name = self.event_type_text();
        name.map(|name| EventType::from_str(name).ok())
            .ok_or(DecodeError { part: header::TYPE })
    }

    /// The order of the message: the subject header, or else the key. The contract makes them equal.
    pub(crate) fn subject(&self) -> Option<Uuid> {
        let from_key = || std::str::from_utf8(self.key.as_deref()?).ok()?.parse().ok();
        self.read(header::SUBJECT).ok().or_else(from_key)
    }

    pub(crate) fn message_id(&self) -> Option<Uuid> {
        self.read(header::ID).ok()
    }

    /// Decodes the message. The payload moves into the envelope without a copy, because it is the
    /// larger part. After an error the payload is still here.
    pub(crate) fn decode(&mut self, event_type: EventType) -> Result<Envelope, DecodeError> {
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
        let missing = DecodeError { part: "payload" };
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

    /// A hash that recognises an unreadable message when it is delivered again. It leaves the trace
    /// header out: a republication has a different one.
    pub(crate) fn identity(&self) -> Uuid {
        let mut content = Vec::new();
        let mut add = |bytes: Option<&[u8]>| {
            // The length separates two parts, and "empty" from "absent".
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

    fn read<T: FromStr>(&self, part: &'static str) -> Result<T, DecodeError> {
        self.text(part)
            .and_then(|value| value.parse().ok())
            .ok_or(DecodeError { part })
    }

    fn text(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(key, _)| key == name)?;
        std::str::from_utf8(value.as_deref()?).ok()
    }
}

impl Position {
    pub(crate) fn of(message: &BorrowedMessage<'_>) -> Self {
        Self {
            partition: message.partition(),
            offset: message.offset(),
        }
    }
}

/// The client library panics on a header name that is not UTF-8. Such a message must not stop the
/// consumer: it would stop it again after every restart.
fn unless_it_panics<T>(read: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(read)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(headers: &[(&str, &str)], payload: &str) -> RawMessage {
        let owned = |(name, value): &(&str, &str)| {
            let value = Some(value.as_bytes().to_vec());
            ((*name).to_owned(), value)
        };
        RawMessage {
            key: None,
            headers: headers.iter().map(owned).collect(),
            payload: Some(payload.as_bytes().to_vec()),
        }
    }

    #[test]
    fn identity_depends_on_content_and_not_on_trace() {
        let first = raw(&[("a", "bc"), ("traceparent", "1")], "x");
        let again = raw(&[("a", "bc"), ("traceparent", "2")], "x");
        assert_eq!(first.identity(), again.identity());
        for other in [
            raw(&[("a", "bc")], "y"),
            raw(&[("ab", "c")], "x"),
            raw(&[("a", "bc"), ("d", "")], "x"),
            RawMessage::default(),
        ] {
            assert_ne!(first.identity(), other.identity(), "{other:?}");
        }
    }

    #[test]
    fn subject_comes_from_the_header_or_else_the_key() {
        let order = Uuid::new_v4();
        let mut message = raw(&[], "");
        assert_eq!(message.subject(), None);
        message.key = Some(order.to_string().into_bytes());
        assert_eq!(message.subject(), Some(order));
        let named = Uuid::new_v4();
        let value = Some(named.to_string().into_bytes());
        message.headers.push((header::SUBJECT.to_owned(), value));
        assert_eq!(message.subject(), Some(named));
    }

    #[test]
    fn undecodable_message_keeps_its_payload() {
        let mut message = raw(&[], "kept");
        assert!(message.decode(EventType::OrderPlaced).is_err());
        assert_eq!(message.payload.as_deref(), Some("kept".as_bytes()));
    }
}
