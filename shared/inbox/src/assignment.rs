//! Which partitions are ours. When one is taken away its work is dropped: the new owner does it.

use std::sync::{Mutex, PoisonError};

use rdkafka::ClientContext;
use rdkafka::consumer::{BaseConsumer, ConsumerContext, Rebalance};

#[derive(Default)]
pub(crate) struct Assignment {
    revoked: Mutex<Vec<i32>>,
}

impl Assignment {
    /// Partitions lost since the last call.
    pub(crate) fn take_revoked(&self) -> Vec<i32> {
        std::mem::take(&mut *self.revoked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ClientContext for Assignment {}

impl ConsumerContext for Assignment {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(partitions) = rebalance {
            let lost = partitions
                .elements()
                .iter()
                .map(|e| e.partition())
                .collect::<Vec<_>>();
            tracing::debug!(?lost, "partitions revoked");
            self.revoked
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(lost);
        }
    }
}
