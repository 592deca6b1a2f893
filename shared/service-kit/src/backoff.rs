//! Exponential backoff with jitter: retries of many clients spread out in time.

use std::time::Duration;

/// Delays between tries.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// Upper bound of the first delay.
    pub base: Duration,
    /// Upper bound of every delay.
    pub max: Duration,
}

impl Backoff {
    /// A random delay of at most `base · 2^(tries - 1)`, capped at `max`. It is at least a tenth of
    /// that bound, so that a small random number does not cause a busy loop.
    pub fn delay(&self, tries: u32) -> Duration {
        let bound = self.bound(tries);
        bound.mul_f64(rand::random_range(0.1..=1.0))
    }

    fn bound(&self, tries: u32) -> Duration {
        let doublings = tries.saturating_sub(1).min(31);
        self.base.saturating_mul(1 << doublings).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        base: Duration::from_millis(100),
        max: Duration::from_secs(5),
    };

    #[test]
    fn bound_doubles_up_to_the_maximum() {
        let bounds = [1, 2, 3, 7, 1000].map(|tries| BACKOFF.bound(tries).as_millis());
        assert_eq!(bounds, [100, 200, 400, 5000, 5000]);
    }

    #[test]
    fn delay_is_between_a_tenth_and_its_bound() {
        for tries in 0..100 {
            let delay = BACKOFF.delay(tries);
            assert!(delay >= BACKOFF.base / 10 && delay <= BACKOFF.bound(tries));
        }
    }
}
