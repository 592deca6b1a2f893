//! Which partitions are ours. When one is taken away its work is dropped: the new owner does it.

use std::sync::{Mutex, PoisonError};

use rdkafka::consumer::{BaseConsumer, ConsumerContext, Rebalance};
use rdkafka::{ClientContext, Statistics, TopicPartitionList};

use crate::lag::Follower;

pub(crate) struct Assignment {
    revoked: Mutex<Vec<i32>>,
    lag: Follower,
}

impl Assignment {
    pub(crate) fn new(lag: Follower) -> Self {
        let revoked = Mutex::default();
        Self { revoked, lag }
    }

    /// Partitions lost since the last call.
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
            let lost = ids(partitions);
            tracing::debug!(?lost, "partitions revoked");
            self.lag.revoked(&lost);
            self.revoked
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(lost);
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
