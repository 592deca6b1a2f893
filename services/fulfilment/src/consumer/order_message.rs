//! One decoded message about an order, and the events that announce the decision.

use anyhow::Context as _;
use events::{
    Envelope, EventType, FulfilmentRejected, FulfilmentShipped, Line, OrderCancelRequested, Origin,
    PaymentCaptured,
};
use inbox::Delivery;
use uuid::Uuid;

use crate::domain::{OrderEvent, RejectionReason, Status};
use crate::store::shipments::NewShipment;

/// The event types that [`OrderMessage::decode`] reads.
pub(super) const WANTED: [EventType; 2] =
    [EventType::PaymentCaptured, EventType::OrderCancelRequested];
/// The source of the events of this service.
const SOURCE: &str = "fulfilment";
/// The version of the payloads.
const PAYLOAD_VERSION: u16 = 1;

pub(super) struct OrderMessage<'a> {
    delivery: &'a Delivery,
    pub(super) event: OrderEvent,
    pub(super) order_id: Uuid,
    pub(super) attempt: i32,
    /// The lines of a captured payment. A cancellation request carries none.
    pub(super) lines: Vec<Line>,
}

impl<'a> OrderMessage<'a> {
    pub(super) fn decode(delivery: &'a Delivery) -> anyhow::Result<Self> {
        let envelope = &delivery.envelope;
        let decoding = || format!("decoding {}", envelope.event_type);
        let (event, attempt, lines) = match envelope.event_type {
            EventType::PaymentCaptured => {
                let payload: PaymentCaptured = envelope.open().with_context(decoding)?;
                (OrderEvent::PaymentCaptured, payload.attempt, payload.lines)
            }
            EventType::OrderCancelRequested => {
                let payload: OrderCancelRequested = envelope.open().with_context(decoding)?;
                (OrderEvent::CancelRequested, payload.attempt, vec![])
            }
            other => anyhow::bail!("unexpected event type {other}"),
        };
        Ok(Self {
            delivery,
            event,
            order_id: envelope.subject,
            attempt,
            lines,
        })
    }

    /// The shipment that this message opens if it is the first one about its order.
    pub(super) fn shipment(&self) -> Result<NewShipment, serde_json::Error> {
        let (status, reason) = match self.event {
            OrderEvent::PaymentCaptured => (Status::Paid, None),
            OrderEvent::CancelRequested => (Status::Cancelled, Some(RejectionReason::Cancelled)),
        };
        Ok(NewShipment {
            order_id: self.order_id,
            attempt: self.attempt,
            lines: serde_json::to_value(&self.lines)?,
            status,
            reason,
        })
    }

    pub(super) fn shipped(&self) -> Result<Envelope, serde_json::Error> {
        let event = FulfilmentShipped {
            v: PAYLOAD_VERSION,
            order_id: self.order_id,
            attempt: self.attempt,
        };
        Envelope::seal(self.origin(), &event)
    }

    pub(super) fn rejected(&self, reason: &str) -> Result<Envelope, serde_json::Error> {
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
