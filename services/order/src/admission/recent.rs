//! How many orders each principal placed recently.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// After this time an order counts half.
const HALF_LIFE: Duration = Duration::from_secs(5);
/// A principal whose orders count less is forgotten.
const COUNT_MIN: f64 = 0.01;
/// How often forgotten principals are removed.
const PRUNE_INTERVAL: Duration = Duration::from_secs(10);

/// Counts that decay.
#[derive(Debug)]
pub(super) struct RecentOrders {
    counts: HashMap<String, Count>,
    total: Count,
    pruned_at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    value: f64,
    at: Instant,
}

impl Default for RecentOrders {
    fn default() -> Self {
        Self {
            counts: HashMap::new(),
            total: Count::new(),
            pruned_at: Instant::now(),
        }
    }
}

impl RecentOrders {
    pub(super) fn add(&mut self, principal: &str) {
        self.total.add();
        match self.counts.get_mut(principal) {
            Some(count) => count.add(),
            None => {
                let mut count = Count::new();
                count.add();
                self.counts.insert(principal.to_owned(), count);
            }
        }
        if self.pruned_at.elapsed() > PRUNE_INTERVAL {
            self.pruned_at = Instant::now();
            self.counts.retain(|_, count| count.now() > COUNT_MIN);
        }
    }

    /// The orders of this principal, relative to the average: 1 if all send the same. Without any order, and for
    /// the only principal, it is 1 too.
    pub(super) fn weight(&self, principal: &str) -> f64 {
        let own = self.counts.get(principal).map_or(0.0, Count::now);
        let others = self.counts.len() - usize::from(self.counts.contains_key(principal));
        let total = self.total.now();
        if others == 0 || total < COUNT_MIN {
            return 1.0;
        }
        own * (others + 1) as f64 / total
    }
}

impl Count {
    fn new() -> Self {
        Self {
            value: 0.0,
            at: Instant::now(),
        }
    }

    fn now(&self) -> f64 {
        let half_lives = self.at.elapsed().as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.value * (-half_lives).exp2()
    }

    fn add(&mut self) {
        *self = Self {
            value: self.now() + 1.0,
            at: Instant::now(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn weight_is_relative_to_the_average_and_decays() {
        let mut recent = RecentOrders::default();
        assert_eq!(recent.weight("a"), 1.0);
        (0..30).for_each(|_| recent.add("a"));
        assert_eq!(recent.weight("a"), 1.0, "it is alone");
        assert_eq!(recent.weight("b"), 0.0, "it has sent nothing");
        (0..10).for_each(|_| recent.add("b"));
        assert!((recent.weight("a") - 1.5).abs() < 1e-6);
        assert!((recent.weight("b") - 0.5).abs() < 1e-6);
        tokio::time::advance(3 * HALF_LIFE).await;
        (0..30).for_each(|_| recent.add("b"));
        assert!(recent.weight("b") > 1.5);
    }

    #[tokio::test(start_paused = true)]
    async fn principals_are_forgotten() {
        let mut recent = RecentOrders::default();
        recent.add("a");
        tokio::time::advance(20 * HALF_LIFE).await;
        recent.add("b");
        assert_eq!(recent.counts.len(), 1);
    }
}
