//! One message as it came from Kafka, opened only if its type is wanted.

use std::str::FromStr;

use chrono::{DateTime, Utc};
use events::{Envelope, EventType, header};
use rdkafka::Message as _;
use rdkafka::message::{BorrowedMessage, Headers as _};
use telemetry::{Kind, Span};
use thiserror::Error;
use uuid::Uuid;

/// Where a message stood in the topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) partition: i32,
    offset: i64,
}

impl Position {
    fn of(message: &BorrowedMessage<'_>) -> Self {
        Self {
            partition: message.partition(),
            offset: message.offset(),
        }
    }
}

/// A message to be handled, and the span of its handling, which ends when this is dropped.
pub struct Delivery {
    pub envelope: Envelope,
    pub(crate) position: Position,
    pub(crate) span: Span,
}

impl Delivery {
    /// What an event caused by this message names as its parent.
    pub fn traceparent(&self) -> Option<String> {
        self.span.traceparent()
    }
}

#[derive(Clone, Debug, Error)]
#[error("{part} of the message at {position:?} is missing or malformed")]
pub struct Undecodable {
    part: &'static str,
    pub(crate) position: Position,
}

/// The type of a message, read from its header alone: most messages are for somebody else. `None`
/// for a type that this version does not know, and so cannot be waiting for.
pub(crate) fn event_type(message: &BorrowedMessage<'_>) -> Result<Option<EventType>, Undecodable> {
    let name: String = required(message, header::TYPE)?;
    Ok(EventType::from_str(&name).ok())
}

pub(crate) fn open(
    message: &BorrowedMessage<'_>,
    event_type: EventType,
    group: &str,
) -> Result<Delivery, Undecodable> {
    let position = Position::of(message);
    let payload = message
        .payload()
        .and_then(|bytes| std::str::from_utf8(bytes).ok());
    let traceparent = text(message, header::TRACEPARENT).map(str::to_owned);
    let envelope = Envelope {
        id: required::<Uuid>(message, header::ID)?,
        event_type,
        source: required(message, header::SOURCE)?,
        subject: required::<Uuid>(message, header::SUBJECT)?,
        time: required::<DateTime<Utc>>(message, header::TIME)?,
        correlation_id: required(message, header::CORRELATION_ID)?,
        traceparent,
        payload: payload
            .ok_or(Undecodable {
                part: "payload",
                position,
            })?
            .to_owned(),
    };
    let span = process_span(&envelope, message, group);
    Ok(Delivery {
        envelope,
        position,
        span,
    })
}

fn process_span(envelope: &Envelope, message: &BorrowedMessage<'_>, group: &str) -> Span {
    let name = format!("process {}", message.topic());
    let mut span = Span::start(name, Kind::Consumer, envelope.traceparent.as_deref());
    span.set("messaging.system", || "kafka");
    span.set("messaging.operation.type", || "process");
    span.set("messaging.destination.name", || message.topic().to_owned());
    span.set("messaging.destination.partition.id", || {
        message.partition().to_string()
    });
    span.set("messaging.kafka.offset", || message.offset());
    span.set("messaging.consumer.group.name", || group.to_owned());
    span.set("messaging.message.id", || envelope.id.to_string());
    span.set("event.type", || envelope.event_type.as_str());
    span.set("order.id", || envelope.subject.to_string());
    span.set("correlation_id", || envelope.correlation_id.clone());
    span
}

fn required<T: FromStr>(
    message: &BorrowedMessage<'_>,
    part: &'static str,
) -> Result<T, Undecodable> {
    text(message, part)
        .and_then(|value| value.parse().ok())
        .ok_or(Undecodable {
            part,
            position: Position::of(message),
        })
}

fn text<'a>(message: &'a BorrowedMessage<'_>, name: &str) -> Option<&'a str> {
    let headers = message.headers()?;
    let found = headers.iter().find(|header| header.key == name)?;
    std::str::from_utf8(found.value?).ok()
}
