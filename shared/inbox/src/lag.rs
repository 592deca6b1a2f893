//! How far behind this process is: what its partitions hold that it has not worked off.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdkafka::statistics::{Partition, Statistics};
use telemetry::metric;

/// Messages behind, summed over the partitions that are ours, as of the client's last statistics.
#[derive(Clone, Debug, Default)]
pub struct Lag(Arc<Mutex<Behind>>);

#[derive(Debug, Default)]
struct Behind {
    /// The client that is listened to.
    client: u64,
    /// Messages behind by partition; only of those that are assigned.
    partitions: BTreeMap<i32, i64>,
}

impl Lag {
    pub fn messages(&self) -> i64 {
        self.lock().partitions.values().sum()
    }

    /// For a new client. What an older one still has to say, when it closes late, is of no interest:
    /// it would take the new one's partitions away.
    pub(crate) fn follow(&self) -> Follower {
        let mut behind = self.lock();
        behind.client += 1;
        behind.partitions.clear();
        behind.tell();
        Follower {
            client: behind.client,
            lag: self.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Behind> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Behind {
    fn tell(&self) {
        let messages: i64 = self.partitions.values().sum();
        metrics::gauge!(metric::INBOX_LAG_MESSAGES).set(messages as f64);
    }
}

/// What one client says of its partitions.
pub(crate) struct Follower {
    client: u64,
    lag: Lag,
}

impl Follower {
    pub(crate) fn assigned(&self, partitions: &[i32]) {
        self.change(|behind| {
            for partition in partitions {
                behind.entry(*partition).or_default();
            }
        });
    }

    pub(crate) fn revoked(&self, partitions: &[i32]) {
        self.change(|behind| behind.retain(|partition, _| !partitions.contains(partition)));
    }

    pub(crate) fn measured(&self, statistics: &Statistics) {
        self.change(|behind| {
            let partitions = statistics.topics.values().flat_map(|it| &it.partitions);
            for (id, partition) in partitions {
                if let Some(messages) = behind.get_mut(id) {
                    *messages = messages_behind(partition).unwrap_or(*messages);
                }
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<i32, i64>)) {
        let mut behind = self.lag.lock();
        if behind.client == self.client {
            change(&mut behind.partitions);
            behind.tell();
        }
    }
}

/// From what is worked off (or from the start, if nothing ever was) to the end that can be read. The
/// client's own figures leave out what is stored and not committed yet, or partitions of a new group.
/// Unknown offsets are negative.
fn messages_behind(partition: &Partition) -> Option<i64> {
    let done = partition.stored_offset.max(partition.committed_offset);
    let done = if done >= 0 { done } else { partition.lo_offset };
    let end = partition.ls_offset;
    (done >= 0 && end >= 0).then(|| (end - done).max(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWN: i64 = -1_001;

    fn behind(stored: i64, committed: i64, first: i64, end: i64) -> Option<i64> {
        messages_behind(&Partition {
            stored_offset: stored,
            committed_offset: committed,
            lo_offset: first,
            ls_offset: end,
            ..Partition::default()
        })
    }

    #[test]
    fn what_is_stored_or_committed_is_done_and_an_unknown_end_tells_nothing() {
        assert_eq!(behind(7, 5, 0, 10), Some(3));
        assert_eq!(behind(UNKNOWN, 5, 0, 10), Some(5));
        assert_eq!(behind(UNKNOWN, UNKNOWN, 4, 10), Some(6), "a new group");
        assert_eq!(behind(7, 7, 0, UNKNOWN), None);
        assert_eq!(behind(UNKNOWN, UNKNOWN, UNKNOWN, 10), None);
        assert_eq!(behind(7, 7, 0, 5), Some(0), "the end is an old figure");
    }

    #[test]
    fn partitions_that_are_gone_and_clients_that_are_replaced_do_not_count() {
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
        let first = lag.follow();
        first.assigned(&[0, 1]);
        first.measured(&statistics(&[(0, 3), (1, 4), (2, 100)]));
        assert_eq!(lag.messages(), 7, "the third is not ours");
        first.revoked(&[1]);
        assert_eq!(lag.messages(), 3);
        let second = lag.follow();
        assert_eq!(lag.messages(), 0);
        second.assigned(&[0]);
        second.measured(&statistics(&[(0, 5)]));
        first.revoked(&[0]);
        first.measured(&statistics(&[(0, 9)]));
        assert_eq!(lag.messages(), 5);
    }
}
