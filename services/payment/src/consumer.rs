//! The consumer: an order opens a payment attempt, a rejection ends it or opens a refund.
//!
//! The provider is not called here: a slow response must hold neither a partition nor a transaction.

pub mod rejections;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use anyhow::Context as _;
use events::{Event, EventType, FulfilmentRejected, OrderPaymentRequested, OrderPlaced};
use inbox::{Delivery, Handler};
use leases::{Reservation, Starter};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::charger::{Charger, ChargerQueues, Queue};
use crate::domain::{AttemptSituation, KeyState, Leased, ProviderCall, ProviderLimits};
use crate::store::attempts::{self, NewAttempt, NewLease};
use rejections::Rejection;

pub struct PayOrders {
    /// Wakes the chargers.
    pub queues: Arc<ChargerQueues>,
    /// Wakes the relay.
    pub wake: outbox::Wake,
    /// Starts the charges of new attempts in free slots.
    pub starter: Starter<Charger>,
    pub limits: ProviderLimits,
}

/// The principals of a batch, and the attempts that it leased.
#[derive(Default)]
pub struct Changed {
    /// Principals with attempts that wait for a charger.
    opened: BTreeSet<String>,
    leased: Option<(Reservation, Vec<(usize, Leased)>)>,
    rejected_orders: HashSet<Uuid>,
    /// Only a rejection makes work for the relay and the chargers of unknown outcomes and refunds.
    rejected: Option<Vec<String>>,
}

impl Handler for PayOrders {
    type AfterCommit = Changed;

    fn wants(&self, event_type: EventType) -> bool {
        matches!(
            event_type,
            EventType::OrderPlaced
                | EventType::OrderPaymentRequested
                | EventType::FulfilmentRejected
        )
    }

    async fn handle(&self, tx: &mut PgConnection, new: &[&Delivery]) -> anyhow::Result<Changed> {
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
        let mut changed = Changed {
            rejected_orders: rejections.iter().map(|it| it.order_id).collect(),
            ..Changed::default()
        };
        // First the attempts: a rejection in the same batch may be about one of them.
        if !attempts.is_empty() {
            self.open(tx, attempts, &mut changed)
                .await
                .context("storing attempts")?;
        }
        if !rejections.is_empty() {
            changed.rejected = Some(rejections::apply(tx, &rejections, &self.limits).await?);
        }
        Ok(changed)
    }

    fn committed(&self, changes: Vec<Changed>) {
        let orders = changes.iter().flat_map(|it| &it.rejected_orders);
        let rejected_orders: HashSet<Uuid> = orders.copied().collect();
        for changed in changes {
            self.start(changed, &rejected_orders);
        }
    }
}

impl PayOrders {
    /// Starts what a commit made possible. `rejected_orders` are those of the whole commit: a redrive leases an attempt
    /// with one message, and may reject its order with a later one. Such an attempt is not charged: when its lease
    /// ends, a charger cancels its key.
    fn start(&self, changed: Changed, rejected_orders: &HashSet<Uuid>) {
        if let Some((reservation, mut leased)) = changed.leased {
            leased.retain(|(_, leased)| !rejected_orders.contains(&leased.order_id));
            self.starter.start(reservation, leased);
        }
        for principal in &changed.opened {
            self.queues.of(Queue::Fresh).wake(principal);
        }
        let Some(rejected) = changed.rejected else {
            return;
        };
        for principal in &rejected {
            for queue in Queue::ALL {
                self.queues.of(queue).wake(principal);
            }
        }
        self.wake.wake();
    }

    /// Stores the attempts. Those that find a free slot are leased by this process. A rejected one is not: what
    /// was never leased is voided at once.
    async fn open(
        &self,
        tx: &mut PgConnection,
        attempts: Vec<NewAttempt>,
        changed: &mut Changed,
    ) -> sqlx::Result<()> {
        let reservation = self.starter.reserve(attempts.iter().map(|new| {
            let is_charged = !changed.rejected_orders.contains(&new.order_id);
            is_charged.then_some(&*new.principal)
        }));
        let lease = NewLease {
            token: reservation.token,
            lease: reservation.lease,
            attempts: &reservation.leased(),
            limits: &self.limits,
        };
        let leased = attempts::open(tx, &attempts, Some(&lease)).await?;
        let mut started = Vec::with_capacity(leased.len());
        for (at, new) in attempts.into_iter().enumerate() {
            match leased.contains(&(new.order_id, new.attempt)) {
                true => started.push((at, first_try(new, &reservation, &self.limits))),
                false => _ = changed.opened.insert(new.principal),
            }
        }
        changed.leased = Some((reservation, started));
        Ok(())
    }
}

/// The first try of an attempt that was stored leased.
fn first_try(new: NewAttempt, reservation: &Reservation, limits: &ProviderLimits) -> Leased {
    let (rejected, key_state) = (false, KeyState::Usable);
    let situation = AttemptSituation {
        rejected,
        forgotten: false,
        key_state,
        can_cancel: limits.can_cancel,
    };
    Leased {
        order_id: new.order_id,
        attempt: new.attempt,
        principal: new.principal,
        token: reservation.token,
        ends: reservation.ends.clone(),
        amount: new.amount,
        currency: new.currency.to_owned(),
        reference: new.order_id.to_string(),
        tries: 1,
        correlation_id: new.correlation_id,
        traceparent: new.traceparent,
        rejected,
        key_state,
        held: false,
        sent_ago: None,
        call: ProviderCall::for_attempt(situation, new.payment_method),
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
