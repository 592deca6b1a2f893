//! Lets batches grow under load without making anybody wait when there is none.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

/// Ticks at once if the last tick is at least `least` ago, and waits for the rest of it otherwise.
/// A worker that ticks before each batch works at once when idle, and in larger batches when busy.
pub fn min_interval(least: Duration) -> Interval {
    let mut ticks = interval(least);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_tick_that_comes_too_soon_waits() {
        let mut ticks = min_interval(Duration::from_millis(10));
        let waited = async |ticks: &mut Interval| {
            let before = tokio::time::Instant::now();
            ticks.tick().await;
            before.elapsed().as_millis()
        };
        assert_eq!(waited(&mut ticks).await, 0, "the first");
        assert_eq!(waited(&mut ticks).await, 10, "at once after it");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(waited(&mut ticks).await, 0, "after a rest");
        assert_eq!(waited(&mut ticks).await, 10, "and no burst to catch up");
    }
}
