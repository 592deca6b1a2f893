//! What was ordered becomes an intent to charge, and what will not ship an intent to give back. The
//! provider is not called here: a slow answer must hold neither a partition nor a transaction.

pub mod refusals;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use events::{EventType, FulfilmentRejected, OrderPaymentRequested, OrderPlaced};
use inbox::{Delivery, Handler};
use sqlx::PgConnection;
use tokio::sync::Notify;

use crate::store::attempts::{self, NewAttempt};
use refusals::Refusal;

pub struct FollowOrders {
    /// Wake the chargers.
    pub due: Arc<Notify>,
    pub unknown_due: Arc<Notify>,
    pub refund_due: Arc<Notify>,
    /// Wakes the relay.
    pub wake: outbox::Wake,
    /// Whether a batch has refused something: only then is there news for those besides `due`.
    pub refused: AtomicBool,
}

impl Handler for FollowOrders {
    fn wants(&self, event_type: EventType) -> bool {
        matches!(
            event_type,
            EventType::OrderPlaced
                | EventType::OrderPaymentRequested
                | EventType::FulfilmentRejected
        )
    }

    async fn handle(&self, tx: &mut PgConnection, new: &[&Delivery]) -> anyhow::Result<()> {
        let mut attempts = Vec::with_capacity(new.len());
        let mut refusals = Vec::new();
        for delivery in new {
            match delivery.envelope.event_type {
                EventType::FulfilmentRejected => refusals.push(refusal(delivery)?),
                _ => attempts.push(attempt(delivery)?),
            }
        }
        // Before the refusals, which may be about them; what an event asks for first comes first.
        if !attempts.is_empty() {
            attempts::open(tx, &attempts)
                .await
                .context("storing attempts")?;
        }
        if !refusals.is_empty() {
            refusals::apply(tx, &refusals).await?;
            self.refused.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn committed(&self) {
        self.due.notify_one();
        if self.refused.swap(false, Ordering::AcqRel) {
            self.unknown_due.notify_one();
            self.refund_due.notify_one();
            self.wake.wake();
        }
    }
}

fn attempt(delivery: &Delivery) -> anyhow::Result<NewAttempt> {
    let order = match delivery.envelope.event_type {
        EventType::OrderPaymentRequested => {
            let again: OrderPaymentRequested = delivery
                .envelope
                .open()
                .context("reading order.payment_requested")?;
            OrderPlaced {
                v: again.v,
                order_id: again.order_id,
                attempt: again.attempt,
                customer_id: again.customer_id,
                amount: again.amount,
                currency: again.currency,
                payment_method: again.payment_method,
                lines: again.lines,
            }
        }
        _ => delivery.envelope.open().context("reading order.placed")?,
    };
    Ok(NewAttempt {
        order_id: order.order_id,
        attempt: order.attempt,
        amount: order.amount,
        currency: order.currency.code(),
        payment_method: order.payment_method,
        customer_id: order.customer_id,
        lines: serde_json::to_value(&order.lines)?,
        correlation_id: delivery.envelope.correlation_id.clone(),
        traceparent: delivery.traceparent(),
    })
}

fn refusal(delivery: &Delivery) -> anyhow::Result<Refusal> {
    let rejected: FulfilmentRejected = delivery
        .envelope
        .open()
        .context("reading fulfilment.rejected")?;
    Ok(Refusal {
        order_id: rejected.order_id,
        attempt: rejected.attempt,
        reason: rejected.reason,
        correlation_id: delivery.envelope.correlation_id.clone(),
        traceparent: delivery.traceparent(),
    })
}
