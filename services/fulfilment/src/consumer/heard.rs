//! One message about an order, read, and the answers to it.

use anyhow::Context as _;
use events::{
    Envelope, EventType, FulfilmentRejected, FulfilmentShipped, Line, OrderCancelRequested, Origin,
    PaymentCaptured,
};
use inbox::Delivery;
use uuid::Uuid;

use crate::domain::{Ask, CANCELLED, Demand, Status};
use crate::store::shipments::NewShipment;

/// The name under which this service announces events.
const SOURCE: &str = "fulfilment";
/// The version of the payloads.
const PAYLOAD_VERSION: u16 = 1;

pub(super) struct Heard<'a> {
    delivery: &'a Delivery,
    pub(super) ask: Ask,
    pub(super) order_id: Uuid,
    pub(super) attempt: i32,
    /// What was paid for; none is known of what is called off.
    pub(super) lines: Vec<Line>,
}

impl<'a> Heard<'a> {
    pub(super) fn read(delivery: &'a Delivery) -> anyhow::Result<Self> {
        let envelope = &delivery.envelope;
        let reading = || format!("reading {}", envelope.event_type);
        let (ask, attempt, lines) = match envelope.event_type {
            EventType::PaymentCaptured => {
                let event: PaymentCaptured = envelope.open().with_context(reading)?;
                (Ask::Captured, event.attempt, event.lines)
            }
            EventType::OrderCancelRequested => {
                let event: OrderCancelRequested = envelope.open().with_context(reading)?;
                (Ask::CancelRequested, event.attempt, vec![])
            }
            other => anyhow::bail!("{other} was not asked for"),
        };
        Ok(Self {
            delivery,
            ask,
            order_id: envelope.subject,
            attempt,
            lines,
        })
    }

    /// The shipment that it opens, if it is the first that is heard of its order.
    pub(super) fn shipment(&self) -> Result<NewShipment, serde_json::Error> {
        let (status, reason) = match self.ask {
            Ask::Captured => (Status::Paid, None),
            Ask::CancelRequested => (Status::Cancelled, Some(CANCELLED)),
        };
        Ok(NewShipment {
            order_id: self.order_id,
            attempt: self.attempt,
            lines: serde_json::to_value(&self.lines)?,
            status: status.as_str(),
            reason,
        })
    }

    pub(super) fn demand(&self) -> Demand<'_> {
        Demand {
            order_id: self.order_id,
            lines: &self.lines,
        }
    }

    pub(super) fn shipped(&self) -> Result<Envelope, serde_json::Error> {
        let event = FulfilmentShipped {
            v: PAYLOAD_VERSION,
            order_id: self.order_id,
            attempt: self.attempt,
        };
        Envelope::seal(self.origin(), &event)
    }

    pub(super) fn refused(&self, reason: &str) -> Result<Envelope, serde_json::Error> {
        let event = FulfilmentRejected {
            v: PAYLOAD_VERSION,
            order_id: self.order_id,
            attempt: self.attempt,
            reason: reason.to_owned(),
        };
        Envelope::seal(self.origin(), &event)
    }

    fn origin(&self) -> Origin<'_> {
        Origin {
            source: SOURCE,
            correlation_id: &self.delivery.envelope.correlation_id,
            traceparent: self.delivery.traceparent(),
        }
    }
}
