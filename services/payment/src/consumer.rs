//! The consumer: an order opens a payment attempt, a rejection ends it or opens a refund.
//!
//! The provider is not called here: a slow response must hold neither a partition nor a transaction.

pub mod rejections;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use events::{EventType, FulfilmentRejected, OrderPaymentRequested, OrderPlaced};
use inbox::{Delivery, Handler};
use sqlx::PgConnection;
use tokio::sync::Notify;

use crate::store::attempts::{self, NewAttempt};
use rejections::Rejection;

pub struct FollowOrders {
    /// These wake the chargers.
    pub due: Arc<Notify>,
    pub unknown_due: Arc<Notify>,
    pub refund_due: Arc<Notify>,
    /// Wakes the relay.
    pub wake: outbox::Wake,
    /// Whether the batch contains a rejection. Only then the others besides `due` have work.
    pub rejected: AtomicBool,
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
        let mut rejections = Vec::new();
        for delivery in new {
            match delivery.envelope.event_type {
                EventType::FulfilmentRejected => rejections.push(rejection(delivery)?),
                _ => attempts.push(attempt(delivery)?),
            }
        }
        // Before the rejections, which may concern these attempts.
        if !attempts.is_empty() {
            attempts::open(tx, &attempts)
                .await
                .context("storing attempts")?;
        }
        if !rejections.is_empty() {
            rejections::apply(tx, &rejections).await?;
            self.rejected.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn committed(&self) {
        self.due.notify_one();
        if self.rejected.swap(false, Ordering::AcqRel) {
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

fn rejection(delivery: &Delivery) -> anyhow::Result<Rejection> {
    let rejected: FulfilmentRejected = delivery
        .envelope
        .open()
        .context("reading fulfilment.rejected")?;
    Ok(Rejection {
        order_id: rejected.order_id,
        attempt: rejected.attempt,
        reason: rejected.reason,
        correlation_id: delivery.envelope.correlation_id.clone(),
        traceparent: delivery.traceparent(),
    })
}
