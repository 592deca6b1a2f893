//! Keeps periodic work from following itself too soon.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

/// Ticks immediately if the last tick was at least `period` ago. Otherwise waits for the rest of
/// the period.
pub fn min_interval(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_an_early_tick_waits() {
        let mut ticks = min_interval(Duration::from_millis(10));
        let waited = async |ticks: &mut Interval| {
            let before = tokio::time::Instant::now();
            ticks.tick().await;
            before.elapsed().as_millis()
        };
        assert_eq!(waited(&mut ticks).await, 0, "first tick");
        assert_eq!(waited(&mut ticks).await, 10, "second tick, too early");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(waited(&mut ticks).await, 0, "after an idle time");
        assert_eq!(waited(&mut ticks).await, 10, "no burst after the idle time");
    }
}
