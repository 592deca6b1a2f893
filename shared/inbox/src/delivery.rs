//! One readable message, as the handler receives it.

use events::{Envelope, EventType};
use telemetry::{Kind, Span};

use crate::raw_message::{DecodeError, Position, RawMessage};

/// A message for the handler, with the span of its processing. The span ends when this is dropped.
pub struct Delivery {
    pub envelope: Envelope,
    /// The raw message without its payload, which moved into the envelope. Needed to park the
    /// message unchanged.
    raw: RawMessage,
    span: Span,
}

impl Delivery {
    /// Decodes the message. If that fails, the error returns the raw message unchanged.
    pub(crate) fn decode(
        mut raw: RawMessage,
        event_type: EventType,
        position: Position,
        (topic, group): (&str, &str),
    ) -> Result<Self, (RawMessage, DecodeError)> {
        let envelope = match raw.decode(event_type) {
            Ok(envelope) => envelope,
            Err(error) => return Err((raw, error)),
        };
        let span = process_span(&envelope, position, topic, group);
        Ok(Self {
            envelope,
            raw,
            span,
        })
    }

    /// The trace parent for events that this message causes.
    pub fn traceparent(&self) -> Option<String> {
        self.span.traceparent()
    }

    /// Notes in the trace that this message was processed before and has no effect now.
    pub(crate) fn note_duplicate(&self) {
        let parent = self.span.traceparent();
        let mut span = Span::start("duplicate dropped", Kind::Internal, parent.as_deref());
        span.set("messaging.message.id", || self.envelope.id.to_string());
        span.set("event.type", || self.envelope.event_type.as_str());
        span.set("order.id", || self.envelope.subject.to_string());
    }

    /// The message exactly as it was received.
    pub(crate) fn raw_message(&self) -> RawMessage {
        RawMessage {
            payload: Some(self.envelope.payload.clone().into_bytes()),
            ..self.raw.clone()
        }
    }
}

fn process_span(envelope: &Envelope, position: Position, topic: &str, group: &str) -> Span {
    let name = format!("process {topic}");
    let mut span = Span::start(name, Kind::Consumer, envelope.traceparent.as_deref());
    span.set("messaging.system", || "kafka");
    span.set("messaging.operation.type", || "process");
    span.set("messaging.destination.name", || topic.to_owned());
    span.set("messaging.destination.partition.id", || {
        position.partition.to_string()
    });
    span.set("messaging.kafka.offset", || position.offset);
    span.set("messaging.consumer.group.name", || group.to_owned());
    span.set("messaging.message.id", || envelope.id.to_string());
    span.set("event.type", || envelope.event_type.as_str());
    span.set("order.id", || envelope.subject.to_string());
    span.set("correlation_id", || envelope.correlation_id.clone());
    span
}
