//! Lookups that lag: at many providers they read from a copy of the books that is a little behind.

use chrono::{DateTime, TimeDelta, Utc};

/// Lookups and ledgers show what was created up to this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cutoff(Option<DateTime<Utc>>);

impl Cutoff {
    /// Without a lag everything is shown, even an entry of another process whose clock is ahead.
    pub fn of(now: DateTime<Utc>, lag: TimeDelta) -> Self {
        Self((lag > TimeDelta::zero()).then(|| now - lag))
    }

    pub fn shows(self, created_at: DateTime<Utc>) -> bool {
        self.0.is_none_or(|cutoff| created_at <= cutoff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_is_shown_once_it_is_as_old_as_the_lag() {
        let now = DateTime::UNIX_EPOCH;
        let cutoff = Cutoff::of(now, TimeDelta::seconds(5));
        for (age_seconds, shown) in [(-1, false), (0, false), (4, false), (5, true), (6, true)] {
            let created_at = now - TimeDelta::seconds(age_seconds);
            assert_eq!(cutoff.shows(created_at), shown, "{age_seconds}");
            assert!(Cutoff::of(now, TimeDelta::zero()).shows(created_at));
        }
    }
}
