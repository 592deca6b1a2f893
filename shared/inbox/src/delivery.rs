//! One message on its way to the handler.

use events::{Envelope, EventType};
use telemetry::{Kind, Span};

use crate::wire::{Position, Undecodable, Wire};

/// A message to be handled, and the span of its handling, which ends when this is dropped.
pub struct Delivery {
    pub envelope: Envelope,
    /// What is not in the envelope, in case the message has to be parked as it came.
    wire: Wire,
    span: Span,
}

impl Delivery {
    /// Gives the message back, as it came, if it cannot be read.
    pub(crate) fn open(
        mut wire: Wire,
        event_type: EventType,
        position: Position,
        (topic, group): (&str, &str),
    ) -> Result<Self, (Wire, Undecodable)> {
        let envelope = match wire.open(event_type) {
            Ok(envelope) => envelope,
            Err(error) => return Err((wire, error)),
        };
        let span = process_span(&envelope, position, topic, group);
        Ok(Self {
            envelope,
            wire,
            span,
        })
    }

    /// What an event caused by this message names as its parent.
    pub fn traceparent(&self) -> Option<String> {
        self.span.traceparent()
    }

    /// The message as it came.
    pub(crate) fn wire(&self) -> Wire {
        Wire {
            payload: Some(self.envelope.payload.clone().into_bytes()),
            ..self.wire.clone()
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
