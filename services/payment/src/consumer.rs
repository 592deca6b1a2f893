//! What was ordered becomes an intent to charge. The provider is not called here: a slow answer
//! must hold neither a partition nor a transaction.

use std::sync::Arc;

use anyhow::Context as _;
use events::{EventType, OrderPlaced};
use inbox::{Delivery, Handler};
use sqlx::PgConnection;
use tokio::sync::Notify;

use crate::store::payments::{self, NewAttempt};

pub struct OpenAttempts {
    /// Wakes the charger.
    pub due: Arc<Notify>,
}

impl Handler for OpenAttempts {
    fn wants(&self, event_type: EventType) -> bool {
        event_type == EventType::OrderPlaced
    }

    async fn handle(&self, tx: &mut PgConnection, new: &[&Delivery]) -> anyhow::Result<()> {
        let attempts = new
            .iter()
            .map(|delivery| attempt(delivery))
            .collect::<anyhow::Result<Vec<_>>>()?;
        payments::open(tx, &attempts)
            .await
            .context("storing attempts")
    }

    fn committed(&self) {
        self.due.notify_one();
    }
}

fn attempt(delivery: &Delivery) -> anyhow::Result<NewAttempt> {
    let order: OrderPlaced = delivery.envelope.open().context("reading order.placed")?;
    Ok(NewAttempt {
        order_id: order.order_id,
        attempt: order.attempt,
        amount: order.amount,
        currency: order.currency.code(),
        payment_method: order.payment_method,
        lines: serde_json::to_value(&order.lines)?,
        correlation_id: delivery.envelope.correlation_id.clone(),
        traceparent: delivery.traceparent(),
    })
}
