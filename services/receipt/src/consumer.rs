//! Logs a mail for each captured payment. Nothing is sent here: a slow mail server must block neither
//! a partition nor a transaction.

use std::sync::Arc;

use anyhow::Context as _;
use events::{EventType, PaymentCaptured};
use inbox::{Delivery, Handler};
use sqlx::PgConnection;
use tokio::sync::Notify;

use crate::domain::Recipients;
use crate::store::receipts::{self, NewReceipt};

pub struct LogReceipts {
    pub recipients: Recipients,
    /// Wakes the sender.
    pub due: Arc<Notify>,
}

impl Handler for LogReceipts {
    fn wants(&self, event_type: EventType) -> bool {
        event_type == EventType::PaymentCaptured
    }

    async fn handle(&self, tx: &mut PgConnection, new: &[&Delivery]) -> anyhow::Result<()> {
        let receipts = new
            .iter()
            .map(|delivery| self.receipt(delivery))
            .collect::<anyhow::Result<Vec<_>>>()?;
        receipts::log(tx, &receipts).await.context("logging mails")
    }

    fn committed(&self) {
        self.due.notify_one();
    }
}

impl LogReceipts {
    fn receipt(&self, delivery: &Delivery) -> anyhow::Result<NewReceipt> {
        let payment: PaymentCaptured = delivery
            .envelope
            .open()
            .context("decoding payment.captured")?;
        Ok(NewReceipt {
            event_id: delivery.envelope.id,
            order_id: payment.order_id,
            attempt: payment.attempt,
            recipient: self.recipients.of(&payment.customer_id),
            amount: payment.amount,
            currency: payment.currency.code(),
            lines: serde_json::to_value(&payment.lines)?,
            correlation_id: delivery.envelope.correlation_id.clone(),
            traceparent: delivery.traceparent(),
        })
    }
}
