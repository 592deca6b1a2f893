//! Which Kafka partitions the relay does not send to for now.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Wait after the first failure of a partition. It doubles with each further one.
const WAIT_MIN: Duration = Duration::from_secs(5);
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The partitions that failed while others delivered.
#[derive(Debug, Default)]
pub(crate) struct Availability {
    failed: HashMap<i32, Failed>,
}

#[derive(Debug)]
struct Failed {
    until: Instant,
    wait: Duration,
}

impl Availability {
    /// Stops sending to the partition for a while.
    pub(crate) fn failed(&mut self, partition: i32, now: Instant) {
        let known = self.failed.get(&partition);
        let wait = known.map_or(WAIT_MIN, |failed| (2 * failed.wait).min(WAIT_MAX));
        let until = now + wait;
        self.failed.insert(partition, Failed { until, wait });
    }

    /// The partition delivers again.
    pub(crate) fn delivered(&mut self, partition: i32) {
        self.failed.remove(&partition);
    }

    /// Partitions to which the relay does not send now.
    pub(crate) fn unavailable(&self, now: Instant) -> Vec<i32> {
        let waiting = self.failed.iter().filter(|(_, failed)| failed.until > now);
        waiting.map(|(partition, _)| *partition).collect()
    }

    /// Partitions whose wait is over, and which have not delivered since.
    pub(crate) fn due(&self, now: Instant) -> Vec<i32> {
        let due = self.failed.iter().filter(|(_, failed)| failed.until <= now);
        due.map(|(partition, _)| *partition).collect()
    }

    /// Extends the wait of a partition that still has no leader. It does not grow: asking for the
    /// leader costs the other orders nothing.
    pub(crate) fn still_without_leader(&mut self, partition: i32, now: Instant) {
        if let Some(failed) = self.failed.get_mut(&partition) {
            failed.until = now + WAIT_MIN;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_doubles_until_the_partition_delivers() {
        let start = Instant::now();
        let mut availability = Availability::default();
        availability.failed(3, start);
        assert_eq!(availability.unavailable(start), [3]);
        let later = start + WAIT_MIN;
        assert!(availability.unavailable(later).is_empty());
        assert_eq!(availability.due(later), [3]);
        availability.failed(3, later);
        assert_eq!(availability.unavailable(later + WAIT_MIN), [3]);
        assert!(availability.unavailable(later + 2 * WAIT_MIN).is_empty());
        availability.delivered(3);
        assert!(availability.due(later + WAIT_MAX).is_empty());
    }

    #[test]
    fn wait_has_a_maximum() {
        let start = Instant::now();
        let mut availability = Availability::default();
        for _ in 0..20 {
            availability.failed(0, start);
        }
        assert!(availability.unavailable(start + WAIT_MAX).is_empty());
    }
}
