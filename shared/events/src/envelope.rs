//! The envelope around a payload: id, type, source, time, correlation id and trace context.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::{Event, EventType};

/// One event as it is stored in the outbox and sent to Kafka.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// Derived from source, order, type and attempt. An event that is published again, or sealed again
    /// after a crash, has the same id, so consumers recognise it as processed.
    pub id: Uuid,
    pub event_type: EventType,
    pub source: String,
    /// The order id. It is the Kafka key, so that events of one order stay in order.
    pub subject: Uuid,
    pub time: DateTime<Utc>,
    pub correlation_id: String,
    pub traceparent: Option<String>,
    /// JSON text.
    pub payload: String,
}

/// The producer of an event, and the request that caused it.
#[derive(Clone, Debug)]
pub struct Origin<'a> {
    /// Name of the producing service. Part of the event id.
    pub source: &'static str,
    pub correlation_id: &'a str,
    pub traceparent: Option<String>,
}

impl Envelope {
    /// Puts an event into an envelope. The id depends only on source, order, type and attempt.
    pub fn seal<E: Event>(origin: Origin<'_>, event: &E) -> Result<Self, serde_json::Error> {
        Ok(Self {
            id: event_id(origin.source, event.order_id(), E::TYPE, event.attempt()),
            event_type: E::TYPE,
            source: origin.source.to_owned(),
            subject: event.order_id(),
            time: Utc::now(),
            correlation_id: origin.correlation_id.to_owned(),
            traceparent: origin.traceparent,
            payload: serde_json::to_string(event)?,
        })
    }

    /// Reads the payload as `E`. Check [`event_type`](Self::event_type) first.
    pub fn open<E: Event>(&self) -> Result<E, serde_json::Error> {
        serde_json::from_str(&self.payload)
    }
}

/// Namespace of the event ids. Any fixed UUID works, but it must never change: consumers would
/// process every event again.
const NAMESPACE: Uuid = Uuid::from_u128(0x6f1a_2c1e_55d4_4d0b_9a53_0f6f_3c7e_91aa);

/// The ids of all events that an order can have in one attempt. Every service publishes under its own
/// name, which is the first part of the type.
pub fn event_ids(order_id: Uuid, attempt: i32) -> impl Iterator<Item = (EventType, Uuid)> {
    EventType::ALL.into_iter().map(move |event_type| {
        let source = event_type.as_str().split('.').next().unwrap_or_default();
        (event_type, event_id(source, order_id, event_type, attempt))
    })
}

fn event_id(source: &str, order_id: Uuid, event_type: EventType, attempt: i32) -> Uuid {
    let name = format!("{source}|{order_id}|{event_type}|{attempt}");
    Uuid::new_v5(&NAMESPACE, name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FulfilmentShipped;

    fn shipped(order: u128, attempt: i32, source: &'static str) -> Envelope {
        let event = FulfilmentShipped {
            v: 1,
            order_id: Uuid::from_u128(order),
            attempt,
        };
        let origin = Origin {
            source,
            correlation_id: "c",
            traceparent: None,
        };
        Envelope::seal(origin, &event).unwrap()
    }

    #[test]
    fn same_event_has_the_same_id() {
        assert_eq!(
            shipped(1, 1, "fulfilment").id,
            shipped(1, 1, "fulfilment").id
        );
    }

    #[test]
    fn order_attempt_and_source_are_part_of_the_id() {
        let id = shipped(1, 1, "fulfilment").id;
        for other in [
            shipped(2, 1, "fulfilment"),
            shipped(1, 2, "fulfilment"),
            shipped(1, 1, "order"),
        ] {
            assert_ne!(id, other.id);
        }
    }

    #[test]
    fn listed_ids_are_those_of_sealed_events() {
        let sealed = shipped(1, 2, "fulfilment");
        let listed: Vec<_> = event_ids(Uuid::from_u128(1), 2).collect();
        assert!(listed.contains(&(EventType::FulfilmentShipped, sealed.id)));
        assert_eq!(listed.len(), EventType::ALL.len());
    }

    #[test]
    fn id_derivation_never_changes() {
        // With another derivation, consumers would process republished events again.
        assert_eq!(
            shipped(1, 1, "fulfilment").id.to_string(),
            "384468c4-c753-5af8-ad6f-a79de91e0d07"
        );
    }
}
