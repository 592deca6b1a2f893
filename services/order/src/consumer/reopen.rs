//! Opens the next attempt of orders whose payment failed only because its key cannot be used again.

use std::collections::HashMap;

use anyhow::Context as _;
use events::{Envelope, OrderPaymentRequested, Origin};
use inbox::Delivery;
use money::Currency;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::event::{ATTEMPT_VERSION, SOURCE, lines};
use crate::store::{attempts, orders};

/// Opens the attempts and writes their events, in the transaction of `tx`.
pub(super) async fn apply(tx: &mut PgConnection, failed: &[&Delivery]) -> anyhow::Result<()> {
    if failed.is_empty() {
        return Ok(());
    }
    let by_order: HashMap<Uuid, &Delivery> = failed
        .iter()
        .map(|delivery| (delivery.envelope.subject, *delivery))
        .collect();
    let ids: Vec<Uuid> = by_order.keys().copied().collect();
    let reopened = attempts::reopen(tx, &ids)
        .await
        .context("opening the next attempts")?;
    let mut events = Vec::with_capacity(reopened.len());
    for order in reopened {
        let items = orders::items(tx, order.id).await.context("reading items")?;
        let cause = by_order
            .get(&order.id)
            .context("reopened an order that was not requested")?;
        let event = OrderPaymentRequested {
            v: ATTEMPT_VERSION,
            order_id: order.id,
            attempt: order.attempt,
            customer_id: order.customer_id,
            amount: order.amount,
            currency: Currency::parse(&order.currency)?,
            payment_method: order.payment_method,
            lines: lines(items)?,
            principal_id: order.principal_id,
        };
        let origin = Origin {
            source: SOURCE,
            correlation_id: &cause.envelope.correlation_id,
            traceparent: cause.traceparent(),
        };
        events.push(Envelope::seal(origin, &event)?);
        tracing::warn!(
            order_id = %event.order_id, attempt = event.attempt,
            correlation_id = cause.envelope.correlation_id,
            "payment failed at the provider, next attempt opened"
        );
    }
    outbox::enqueue(tx, &events).await.context("writing events")
}
