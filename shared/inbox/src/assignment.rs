//! What a client reports from its callbacks: the partitions it gains and loses, its lag, and whether
//! it is connected. Work on a revoked partition is dropped: its new owner does it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, ConsumerContext, Rebalance};
use rdkafka::statistics::Broker;
use rdkafka::{ClientContext, Statistics, TopicPartitionList};
use tokio::time::Instant;

use crate::lag::LagReporter;

/// The state of a broker connection in the statistics.
const BROKER_UP: &str = "UP";
/// A connection on which nothing was received for this long does not count. The client asks for
/// metadata every 5 s, so a paused broker, whose connections stay open, is noticed.
const RECEIVED_WITHIN: Duration = Duration::from_secs(10);

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

/// Partitions gained and lost since the last call of [`Assignment::take_changes`], in the order of the fields.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Changes {
    /// The client was replaced: its partitions are gone, whichever it had. It may not know them itself: a fenced client
    /// loses them without a callback.
    pub(crate) all_revoked: bool,
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
        let is_connected = brokers.any(is_connected);
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

fn is_connected(broker: &Broker) -> bool {
    // In microseconds; negative before the first response.
    let idle = u64::try_from(broker.rxidle).map(Duration::from_micros);
    broker.state == BROKER_UP && idle.is_ok_and(|idle| idle < RECEIVED_WITHIN)
}

fn ids(partitions: &TopicPartitionList) -> Vec<i32> {
    let partitions = partitions.elements();
    partitions.iter().map(|it| it.partition()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lag::Lag;

    const LIMIT: Duration = Duration::from_secs(10);

    fn report(client: &Assignment, state: &str) {
        let mut statistics = Statistics::default();
        let broker = Broker {
            state: state.to_owned(),
            ..Broker::default()
        };
        statistics.brokers.insert("broker".to_owned(), broker);
        client.stats(statistics);
    }

    #[tokio::test(start_paused = true)]
    async fn client_without_a_connected_broker_is_cut_off() {
        let client = Assignment::new(Lag::default().new_client());
        tokio::time::sleep(LIMIT).await;
        assert!(!client.is_cut_off(LIMIT));
        report(&client, BROKER_UP);
        tokio::time::sleep(LIMIT / 2).await;
        report(&client, "DOWN");
        tokio::time::sleep(LIMIT / 2).await;
        assert!(!client.is_cut_off(LIMIT));
        // A client that forgot its brokers reports none.
        client.stats(Statistics::default());
        tokio::time::sleep(LIMIT / 2).await;
        assert!(client.is_cut_off(LIMIT));
        assert!(!client.is_overdue(LIMIT), "an outage is not a stall");
        report(&client, BROKER_UP);
        assert!(!client.is_cut_off(LIMIT));
    }

    #[test]
    fn broker_that_answers_nothing_is_not_connected() {
        let broker = |rxidle: i64| Broker {
            state: BROKER_UP.to_owned(),
            rxidle,
            ..Broker::default()
        };
        assert!(is_connected(&broker(5_000_000)));
        assert!(!is_connected(&broker(11_000_000)));
        assert!(!is_connected(&broker(-1)));
    }

    #[tokio::test(start_paused = true)]
    async fn connected_client_without_assignment_is_overdue() {
        let client = Assignment::new(Lag::default().new_client());
        assert!(!client.is_overdue(LIMIT));
        report(&client, BROKER_UP);
        assert!(client.is_overdue(LIMIT));
        client.lock().is_assigned = true;
        assert!(!client.is_overdue(LIMIT), "assigned, and nothing is unread");
        tokio::time::sleep(2 * LIMIT).await;
        assert!(client.is_overdue(LIMIT), "no more reports");
    }
}
