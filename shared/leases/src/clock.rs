//! The clock of leases. It counts the time during which the machine was suspended.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since some point in the past.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

/// The end of a lease, on the clock of this process.
#[derive(Clone, Debug)]
pub struct LeaseEnd {
    clock: Clock,
    at: Duration,
}

impl Clock {
    /// A clock for tests.
    pub fn new(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Time since the start of the clock.
    pub fn now(&self) -> Duration {
        (self.0)()
    }

    pub(crate) fn after(&self, lease: Duration) -> LeaseEnd {
        LeaseEnd {
            clock: self.clone(),
            at: self.now() + lease,
        }
    }
}

impl Default for Clock {
    /// `CLOCK_BOOTTIME`. The monotonic clock stops while the machine is suspended, but the leases in
    /// the store keep running.
    fn default() -> Self {
        Self::new(|| {
            let now = clock_gettime(ClockId::Boottime);
            Duration::new(
                now.tv_sec.try_into().unwrap_or_default(),
                now.tv_nsec.try_into().unwrap_or_default(),
            )
        })
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

impl LeaseEnd {
    /// An end that is never reached, for an unprotected program: it leases nothing.
    pub fn never() -> Self {
        Self {
            clock: Clock::default(),
            at: Duration::MAX,
        }
    }

    pub fn is_over(&self) -> bool {
        self.remaining().is_zero()
    }

    /// Time until the end; zero after it.
    pub fn remaining(&self) -> Duration {
        self.at.saturating_sub(self.clock.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_clock_advances() {
        let clock = Clock::default();
        assert!(clock.after(Duration::ZERO).is_over());
        assert!(!clock.after(Duration::from_secs(3_600)).is_over());
    }
}
