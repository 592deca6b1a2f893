//! Announces failed payments after which the order waits for its customer.

use std::collections::HashMap;

use anyhow::Context as _;
use events::{Envelope, OrderPaymentFailed, Origin, PaymentFailed};
use inbox::Delivery;
use money::{Currency, Money};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::event::SOURCE;
use crate::store::attempts::{self, Payer};

const PAYLOAD_VERSION: u16 = 1;

/// Writes one event per failed payment, in the transaction of `tx`.
pub(super) async fn apply(tx: &mut PgConnection, failed: &[&Delivery]) -> anyhow::Result<()> {
    if failed.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = failed.iter().map(|it| it.envelope.subject).collect();
    let payers = attempts::payers(tx, &ids).await.context("reading payers")?;
    let payers: HashMap<Uuid, Payer> = payers.into_iter().map(|it| (it.order_id, it)).collect();
    let mut events = Vec::with_capacity(failed.len());
    for cause in failed {
        let envelope = &cause.envelope;
        let failure: PaymentFailed = envelope.open().context("reading a failed payment")?;
        let payer = payers
            .get(&envelope.subject)
            .context("the order of a failed payment was not found")?;
        let event = OrderPaymentFailed {
            v: PAYLOAD_VERSION,
            order_id: payer.order_id,
            attempt: failure.attempt,
            customer_id: payer.customer_id.clone(),
            failure_code: failure.failure_code,
            due: Money::new(payer.amount, Currency::parse(&payer.currency)?)?,
        };
        let origin = Origin {
            source: SOURCE,
            correlation_id: &envelope.correlation_id,
            traceparent: cause.traceparent(),
        };
        events.push(Envelope::seal(origin, &event)?);
    }
    outbox::enqueue(tx, &events).await.context("writing events")
}
