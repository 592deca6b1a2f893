//! Lets batches grow under load, without a delay when idle.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The interval from the start of one batch to the start of the next is this many times the duration of the first. On an
/// overloaded machine batches take longer, so intervals and batches grow.
const INTERVAL_FACTOR: u32 = 4;
/// Shortest interval that counts for a batch. Below it, hardly any batch would have more than one row.
const INTERVAL_MIN: Duration = Duration::from_millis(5);
/// How many batches may follow each other without a wait after an idle time. One order makes several events
/// within milliseconds.
const BURST: u32 = 4;

/// Limits how often a worker begins a batch: a few times at once after an idle time, and then in intervals that
/// depend on how long the batches take.
#[derive(Debug)]
pub struct BatchInterval {
    max: Duration,
    /// The interval of the last batch.
    last: Duration,
    /// When all batches so far have used up their intervals.
    used_until: Instant,
}

impl BatchInterval {
    /// No interval is longer than `max`.
    pub fn new(max: Duration) -> Self {
        Self {
            max,
            last: Duration::ZERO,
            used_until: Instant::now(),
        }
    }

    /// Waits until the next batch may begin.
    pub async fn begin(&self) {
        let now = Instant::now();
        let ahead = self.used_until.saturating_duration_since(now);
        let allowed = (BURST - 1) * self.last;
        if ahead > allowed {
            sleep_until(now + (ahead - allowed)).await;
        }
    }

    /// Counts a batch that began at this time and has just ended. Do not count a batch that had nothing to do, or
    /// that was full: waiting would not have made it larger.
    pub fn ended(&mut self, began: Instant) {
        let interval = INTERVAL_FACTOR * began.elapsed();
        self.last = interval.max(INTERVAL_MIN).min(self.max);
        // Earlier batches count with this interval too: while intervals shrink, what they used up would delay the next
        // batch by more than one interval.
        let used_until = self.used_until.min(began + (BURST - 1) * self.last);
        self.used_until = used_until.max(began) + self.last;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const MAX: Duration = Duration::from_millis(20);

    /// How long a batch waits before it begins. The batch takes this time.
    async fn wait_of_batch(batches: &mut BatchInterval, takes: Duration) -> Duration {
        let before = Instant::now();
        batches.begin().await;
        let waited = before.elapsed();
        let began = Instant::now();
        advance(takes).await;
        batches.ended(began);
        waited
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_burst_starts_without_a_wait() {
        let mut batches = BatchInterval::new(MAX);
        for round in 1..=2 {
            for batch in 1..=2 * BURST {
                let waited = wait_of_batch(&mut batches, Duration::ZERO).await;
                let expected = if batch > BURST {
                    INTERVAL_MIN
                } else {
                    Duration::ZERO
                };
                assert_eq!(waited, expected, "batch {batch} of round {round}");
            }
            // Idle time is not saved: the second burst is not longer.
            advance(Duration::from_secs(60)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_batches_follow_in_longer_intervals() {
        for (takes_ms, interval_ms) in [(1, 5), (2, 8), (4, 16), (10, 20)] {
            let mut batches = BatchInterval::new(MAX);
            let takes = Duration::from_millis(takes_ms);
            for _ in 0..5 * BURST {
                wait_of_batch(&mut batches, takes).await;
            }
            let waited = wait_of_batch(&mut batches, takes).await;
            assert_eq!(waited, Duration::from_millis(interval_ms - takes_ms));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_wait_is_longer_than_the_interval() {
        let mut batches = BatchInterval::new(MAX);
        for _ in 0..5 * BURST {
            wait_of_batch(&mut batches, MAX / 2).await;
        }
        let fast = Duration::ZERO;
        wait_of_batch(&mut batches, fast).await;
        for _ in 0..5 * BURST {
            assert_eq!(wait_of_batch(&mut batches, fast).await, INTERVAL_MIN);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn batch_that_is_not_counted_delays_no_other() {
        let batches = BatchInterval::new(MAX);
        for _ in 0..100 {
            let before = Instant::now();
            batches.begin().await;
            assert!(before.elapsed().is_zero());
        }
    }
}
