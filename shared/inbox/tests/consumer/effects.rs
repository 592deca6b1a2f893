//! A handler whose effects can be counted, and which fails when it is told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use events::{EventType, FulfilmentShipped};
use inbox::{Delivery, Handler};
use sqlx::PgConnection;

/// More failures than any test waits for.
pub(crate) const FOR_EVER: usize = usize::MAX;

#[derive(Clone, Default)]
pub(crate) struct Effects {
    /// How many of the next calls fail, after they have written.
    pub(crate) failures: Arc<AtomicUsize>,
    pub(crate) calls: Arc<AtomicUsize>,
    /// How long each call takes.
    pub(crate) delay: Duration,
}

impl Effects {
    pub(crate) fn failing(times: usize) -> Self {
        let effects = Self::default();
        effects.failures.store(times, Ordering::SeqCst);
        effects
    }

    pub(crate) fn heal(&self) {
        self.failures.store(0, Ordering::SeqCst);
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Handler for Effects {
    fn wants(&self, event_type: EventType) -> bool {
        event_type == EventType::FulfilmentShipped
    }

    async fn handle(&self, tx: &mut PgConnection, new: &[&Delivery]) -> anyhow::Result<()> {
        for delivery in new {
            let event: FulfilmentShipped = delivery.envelope.open()?;
            sqlx::query("insert into effects (message_id, subject, number) values ($1, $2, $3)")
                .bind(delivery.envelope.id)
                .bind(event.order_id)
                .bind(event.attempt)
                .execute(&mut *tx)
                .await?;
        }
        self.calls.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(self.delay).await;
        let fewer = |left: usize| left.checked_sub(1);
        let left = self
            .failures
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer);
        anyhow::ensure!(left.is_err(), "told to fail");
        Ok(())
    }
}
