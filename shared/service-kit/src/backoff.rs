//! Exponential backoff with full jitter: retries of many clients spread out instead of marching.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    pub base: Duration,
    pub max: Duration,
}

impl Backoff {
    /// A random delay up to `base · 2^(tries - 1)`, capped at `max`, and at least a tenth of that
    /// bound, so that an unlucky draw does not become a busy loop.
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
    fn the_bound_doubles_until_it_is_capped() {
        let bounds = [1, 2, 3, 7, 1000].map(|tries| BACKOFF.bound(tries).as_millis());
        assert_eq!(bounds, [100, 200, 400, 5000, 5000]);
    }

    #[test]
    fn a_delay_is_never_zero_nor_above_its_bound() {
        for tries in 0..100 {
            let delay = BACKOFF.delay(tries);
            assert!(delay >= BACKOFF.base / 10 && delay <= BACKOFF.bound(tries));
        }
    }
}
