//! The lag of this process: messages in its partitions that it has not processed yet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::statistics::{Partition, Statistics};
use telemetry::metric;

/// Lag in messages, summed over the assigned partitions, as of the client's last statistics.
#[derive(Clone, Debug, Default)]
pub struct Lag(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The client whose reports count.
    client: u64,
    /// For assigned partitions only.
    partitions: BTreeMap<i32, PartitionLag>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PartitionLag {
    /// Messages that are not processed yet.
    messages: i64,
    /// Whether the client has messages to deliver, or to fetch.
    has_unread: bool,
    /// The end of the log that a check found. A client that hangs may not know it.
    log_end: Option<i64>,
}

impl Lag {
    pub fn messages(&self) -> i64 {
        self.lock().messages()
    }

    /// Starts over with a new client. Late reports of an older client, for example while it closes,
    /// are ignored: they would remove the new client's partitions.
    pub(crate) fn new_client(&self) -> LagReporter {
        let mut state = self.lock();
        state.client += 1;
        state.partitions.clear();
        state.publish();
        LagReporter {
            client: state.client,
            lag: self.clone(),
        }
    }

    /// A check of the log found the end of this partition.
    pub(crate) fn found_end(&self, partition: i32, end: i64) {
        if let Some(lag) = self.lock().partitions.get_mut(&partition) {
            lag.log_end = Some(end);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn messages(&self) -> i64 {
        self.partitions.values().map(|it| it.messages).sum()
    }

    fn publish(&self) {
        metrics::gauge!(metric::INBOX_LAG_MESSAGES).set(self.messages() as f64);
    }
}

/// How the client's statistics say that an offset is unknown.
const UNKNOWN: i64 = -1_001;

/// One client's reports on its partitions.
pub(crate) struct LagReporter {
    client: u64,
    lag: Lag,
}

impl LagReporter {
    pub(crate) fn assigned(&self, partitions: &[i32]) {
        self.change(|lags| {
            for partition in partitions {
                lags.entry(*partition).or_default();
            }
        });
    }

    pub(crate) fn revoked(&self, partitions: &[i32]) {
        self.change(|lags| lags.retain(|partition, _| !partitions.contains(partition)));
    }

    pub(crate) fn measured(&self, statistics: &Statistics) {
        self.change(|lags| {
            let partitions = statistics.topics.values().flat_map(|it| &it.partitions);
            for (id, partition) in partitions {
                if let Some(lag) = lags.get_mut(id) {
                    *lag = partition_lag(partition, lag.log_end).unwrap_or(*lag);
                }
            }
        });
    }

    /// Whether the client should deliver messages.
    pub(crate) fn has_unread(&self) -> bool {
        let state = self.lag.lock();
        state.client == self.client && state.partitions.values().any(|it| it.has_unread)
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<i32, PartitionLag>)) {
        let mut state = self.lag.lock();
        if state.client == self.client {
            change(&mut state.partitions);
            state.publish();
        }
    }
}

/// Messages from the stored or committed offset to the last readable message; from the start of the
/// partition if the group never stored an offset. The client's own lag figures miss offsets that are
/// stored but not committed, and partitions of a new group. Unknown offsets are negative.
fn partition_lag(partition: &Partition, log_end: Option<i64>) -> Option<PartitionLag> {
    let done = partition.stored_offset.max(partition.committed_offset);
    let done = if done >= 0 { done } else { partition.lo_offset };
    let end = partition.ls_offset.max(log_end.unwrap_or(UNKNOWN));
    // Markers of transactions are fetched and never delivered, so the fetch position counts.
    let fetched = if partition.next_offset >= 0 {
        partition.next_offset
    } else {
        done
    };
    (done >= 0 && end >= 0).then(|| PartitionLag {
        messages: (end - done).max(0),
        has_unread: end > fetched || partition.fetchq_cnt > 0,
        log_end,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lag(stored: i64, committed: i64, first: i64, end: i64) -> Option<i64> {
        let partition = Partition {
            stored_offset: stored,
            committed_offset: committed,
            lo_offset: first,
            ls_offset: end,
            ..Partition::default()
        };
        let lag = partition_lag(&partition, None);
        lag.map(|lag| lag.messages)
    }

    #[test]
    fn client_has_unread_messages_until_it_delivered_them() {
        let has_unread = |stored, next, queued| {
            let partition = Partition {
                stored_offset: stored,
                next_offset: next,
                fetchq_cnt: queued,
                ls_offset: 10,
                ..Partition::default()
            };
            partition_lag(&partition, None).unwrap().has_unread
        };
        assert!(has_unread(7, 7, 0), "not fetched");
        assert!(has_unread(7, 10, 3), "fetched and not delivered");
        assert!(
            !has_unread(7, 10, 0),
            "the rest are markers of transactions"
        );
        assert!(!has_unread(10, 10, 0));
        assert!(has_unread(7, UNKNOWN, 0), "the fetch has not begun");
        assert!(!has_unread(10, UNKNOWN, 0));
    }

    #[test]
    fn client_that_does_not_fetch_has_unread_messages() {
        let partition = Partition {
            stored_offset: 6,
            next_offset: 6,
            ls_offset: 6,
            ..Partition::default()
        };
        let lag = |end| partition_lag(&partition, end).unwrap();
        assert_eq!((lag(None).messages, lag(None).has_unread), (0, false));
        assert_eq!((lag(Some(8)).messages, lag(Some(8)).has_unread), (2, true));
        assert!(!lag(Some(5)).has_unread, "older than the statistics");
    }

    #[test]
    fn lag_counts_from_stored_or_committed_offset() {
        assert_eq!(lag(7, 5, 0, 10), Some(3));
        assert_eq!(lag(UNKNOWN, 5, 0, 10), Some(5));
        assert_eq!(lag(UNKNOWN, UNKNOWN, 4, 10), Some(6), "a new group");
        assert_eq!(lag(7, 7, 0, UNKNOWN), None);
        assert_eq!(lag(UNKNOWN, UNKNOWN, UNKNOWN, 10), None);
        assert_eq!(lag(7, 7, 0, 5), Some(0), "the end is outdated");
    }

    #[test]
    fn revoked_partitions_and_replaced_clients_do_not_count() {
        let statistics = |lags: &[(i32, i64)]| {
            let partition = |&(id, lag)| {
                let partition = Partition {
                    stored_offset: 0,
                    ls_offset: lag,
                    ..Partition::default()
                };
                (id, partition)
            };
            let mut statistics = Statistics::default();
            let topic = statistics.topics.entry("topic".to_owned()).or_default();
            topic.partitions = lags.iter().map(partition).collect();
            statistics
        };
        let lag = Lag::default();
        let first = lag.new_client();
        first.assigned(&[0, 1]);
        first.measured(&statistics(&[(0, 3), (1, 4), (2, 100)]));
        assert_eq!(lag.messages(), 7, "partition 2 is not assigned");
        first.revoked(&[1]);
        assert_eq!(lag.messages(), 3);
        let second = lag.new_client();
        assert_eq!(lag.messages(), 0);
        second.assigned(&[0]);
        second.measured(&statistics(&[(0, 5)]));
        first.revoked(&[0]);
        first.measured(&statistics(&[(0, 9)]));
        assert_eq!(lag.messages(), 5);
    }
}
