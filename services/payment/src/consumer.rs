//! The consumer: an order opens a payment attempt, a rejection ends it or opens a refund.
//!
//! The provider is not called here: a slow response must hold neither a partition nor a transaction.

pub mod rejections;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context as _;
use events::{Event, EventType, FulfilmentRejected, OrderPaymentRequested, OrderPlaced};
use inbox::{Delivery, Handler};
use sqlx::PgConnection;

use crate::charger::{ChargerQueues, Queue};
use crate::domain::ProviderLimits;
use crate::store::attempts::{self, NewAttempt};
use rejections::Rejection;

pub struct PayOrders {
    /// Wakes the chargers.
    pub queues: Arc<ChargerQueues>,
    /// Wakes the relay.
    pub wake: outbox::Wake,
    /// Whose rows the batch has changed.
    pub changed: Mutex<Changed>,
    pub limits: ProviderLimits,
}

/// The principals of a batch.
#[derive(Debug, Default)]
pub struct Changed {
    opened: BTreeSet<String>,
    /// Only a rejection makes work for the relay and the chargers of unknown outcomes and refunds.
    rejected: Option<Vec<String>>,
}

impl Handler for PayOrders {
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
                EventType::OrderPlaced => attempts.push(first_attempt(delivery)?),
                EventType::OrderPaymentRequested => attempts.push(next_attempt(delivery)?),
                EventType::FulfilmentRejected => rejections.push(rejection(delivery)?),
                other => anyhow::bail!("unexpected event type {other}"),
            }
        }
        let mut changed = Changed::default();
        // First the attempts: a rejection in the same batch may be about one of them.
        if !attempts.is_empty() {
            attempts::open(tx, &attempts)
                .await
                .context("storing attempts")?;
            changed.opened = attempts.into_iter().map(|new| new.principal).collect();
        }
        if !rejections.is_empty() {
            changed.rejected = Some(rejections::apply(tx, &rejections, &self.limits).await?);
        }
        *self.changed() = changed;
        Ok(())
    }

    fn committed(&self) {
        let Changed { opened, rejected } = std::mem::take(&mut *self.changed());
        for principal in &opened {
            self.queues.of(Queue::Fresh).wake(principal);
        }
        let Some(rejected) = rejected else {
            return;
        };
        for principal in &rejected {
            for queue in Queue::ALL {
                self.queues.of(queue).wake(principal);
            }
        }
        self.wake.wake();
    }
}

impl PayOrders {
    fn changed(&self) -> MutexGuard<'_, Changed> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn first_attempt(delivery: &Delivery) -> anyhow::Result<NewAttempt> {
    let placed: OrderPlaced = open(delivery)?;
    Ok(NewAttempt {
        order_id: placed.order_id,
        attempt: placed.attempt,
        principal: placed.principal_id,
        amount: placed.amount,
        currency: placed.currency.code(),
        payment_method: placed.payment_method,
        customer_id: placed.customer_id,
        lines: serde_json::to_value(&placed.lines)?,
        correlation_id: delivery.envelope.correlation_id.clone(),
        traceparent: delivery.traceparent(),
        requested_at: delivery.envelope.time,
    })
}

fn next_attempt(delivery: &Delivery) -> anyhow::Result<NewAttempt> {
    let requested: OrderPaymentRequested = open(delivery)?;
    Ok(NewAttempt {
        order_id: requested.order_id,
        attempt: requested.attempt,
        principal: requested.principal_id,
        amount: requested.amount,
        currency: requested.currency.code(),
        payment_method: requested.payment_method,
        customer_id: requested.customer_id,
        lines: serde_json::to_value(&requested.lines)?,
        correlation_id: delivery.envelope.correlation_id.clone(),
        traceparent: delivery.traceparent(),
        requested_at: delivery.envelope.time,
    })
}

fn rejection(delivery: &Delivery) -> anyhow::Result<Rejection> {
    let rejected: FulfilmentRejected = open(delivery)?;
    Ok(Rejection {
        order_id: rejected.order_id,
        attempt: rejected.attempt,
        reason: rejected.reason,
        correlation_id: delivery.envelope.correlation_id.clone(),
        traceparent: delivery.traceparent(),
        requested_at: delivery.envelope.time,
    })
}

fn open<E: Event>(delivery: &Delivery) -> anyhow::Result<E> {
    let envelope = &delivery.envelope;
    envelope
        .open()
        .with_context(|| format!("decoding {}", envelope.event_type))
}
