//! What a client reports from its callbacks: the partitions it gains and loses, its lag, and whether
//! it is connected. Work on a revoked partition is dropped: its new owner does it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, ConsumerContext, Rebalance};
use rdkafka::{ClientContext, Statistics, TopicPartitionList};
use tokio::time::Instant;

use crate::lag::LagReporter;

/// The state of a broker connection in the statistics.
const BROKER_UP: &str = "UP";

pub(crate) struct Assignment {
    state: Mutex<State>,
    lag: LagReporter,
}

struct State {
    changes: Changes,
    /// Whether the group's coordinator has given this client its partitions, perhaps none.
    is_assigned: bool,
    /// Whether a broker was connected at the last report.
    is_connected: bool,
    /// When a broker was last connected; at first, when the client was created.
    connected_at: Instant,
    /// When the client last reported its statistics.
    reported_at: Instant,
}

/// Partitions gained and lost since the last call of [`Assignment::take_changes`].
#[derive(Default)]
pub(crate) struct Changes {
    pub(crate) revoked: Vec<i32>,
    pub(crate) assigned: Vec<i32>,
}

impl Assignment {
    pub(crate) fn new(lag: LagReporter) -> Self {
        let state = Mutex::new(State {
            changes: Changes::default(),
            is_assigned: false,
            is_connected: false,
            connected_at: Instant::now(),
            reported_at: Instant::now(),
        });
        Self { state, lag }
    }

    pub(crate) fn take_changes(&self) -> Changes {
        std::mem::take(&mut self.lock().changes)
    }

    /// Whether the client should deliver something soon: messages, or its first partitions. False
    /// while no broker is reachable: such a client waits for a reason. True if it does not even
    /// report its statistics.
    pub(crate) fn is_overdue(&self, report_max: Duration) -> bool {
        let state = self.lock();
        let is_silent = state.reported_at.elapsed() > report_max;
        is_silent || state.is_connected && (!state.is_assigned || self.lag.has_unread())
    }

    /// Whether no broker has been connected for this time.
    pub(crate) fn is_cut_off(&self, limit: Duration) -> bool {
        self.lock().connected_at.elapsed() > limit
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Assignment {
    fn stats(&self, statistics: Statistics) {
        let mut brokers = statistics.brokers.values();
        let is_connected = brokers.any(|broker| broker.state == BROKER_UP);
        self.lag.measured(&statistics);
        let mut state = self.lock();
        state.is_connected = is_connected;
        if is_connected {
            state.connected_at = Instant::now();
        }
        state.reported_at = Instant::now();
    }
}

impl ConsumerContext for Assignment {
    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Revoke(partitions) = rebalance {
            let revoked = ids(partitions);
            tracing::debug!(?revoked, "partitions revoked");
            self.lag.revoked(&revoked);
            let mut state = self.lock();
            state.is_assigned = false;
            // The order matters: a partition may be assigned and revoked between two calls.
            let assigned = &mut state.changes.assigned;
            assigned.retain(|partition| !revoked.contains(partition));
            state.changes.revoked.extend(revoked);
        }
    }

    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(partitions) = rebalance {
            let assigned = ids(partitions);
            tracing::debug!(?assigned, "partitions assigned");
            self.lag.assigned(&assigned);
            let mut state = self.lock();
            state.is_assigned = true;
            state.changes.assigned.extend(assigned);
        }
    }
}

fn ids(partitions: &TopicPartitionList) -> Vec<i32> {
    let partitions = partitions.elements();
    partitions.iter().map(|it| it.partition()).collect()
}
