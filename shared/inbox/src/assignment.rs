//! Records which partitions this client loses. Work on a revoked partition is dropped: its new
//! owner does it.

use std::sync::{Mutex, PoisonError};

use rdkafka::consumer::{BaseConsumer, ConsumerContext, Rebalance};
use rdkafka::{ClientContext, Statistics, TopicPartitionList};

use crate::lag::LagReporter;

pub(crate) struct Assignment {
    revoked: Mutex<Vec<i32>>,
    lag: LagReporter,
}

impl Assignment {
    pub(crate) fn new(lag: LagReporter) -> Self {
        let revoked = Mutex::default();
        Self { revoked, lag }
    }

    /// Partitions revoked since the last call.
    pub(crate) fn take_revoked(&self) -> Vec<i32> {
        std::mem::take(&mut *self.revoked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ClientContext for Assignment {
    fn stats(&self, statistics: Statistics) {
        self.lag.measured(&statistics);
    }
}

impl ConsumerContext for Assignment {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(partitions) = rebalance {
            let revoked = ids(partitions);
            tracing::debug!(?revoked, "partitions revoked");
            self.lag.revoked(&revoked);
            self.revoked
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(revoked);
        }
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(partitions) = rebalance {
            self.lag.assigned(&ids(partitions));
        }
    }
}

fn ids(partitions: &TopicPartitionList) -> Vec<i32> {
    let partitions = partitions.elements();
    partitions.iter().map(|it| it.partition()).collect()
}
