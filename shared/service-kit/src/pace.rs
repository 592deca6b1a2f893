//! Lets batches grow under load without making anybody wait when there is none.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

/// Ticks at once if the last tick is at least `least` ago, and waits for the rest of it otherwise.
/// A worker that ticks before each batch works at once when idle, and in larger batches when busy.
pub fn pace(least: Duration) -> Interval {
    let mut pace = interval(least);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pace
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_tick_that_comes_too_soon_waits() {
        let mut pace = pace(Duration::from_millis(10));
        let waited = async |pace: &mut Interval| {
            let before = tokio::time::Instant::now();
            pace.tick().await;
            before.elapsed().as_millis()
        };
        assert_eq!(waited(&mut pace).await, 0, "the first");
        assert_eq!(waited(&mut pace).await, 10, "at once after it");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(waited(&mut pace).await, 0, "after a rest");
        assert_eq!(waited(&mut pace).await, 10, "and no burst to catch up");
    }
}
