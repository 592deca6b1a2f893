//! Whether a mail is too old to be sent without an operator.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::domain::Status;

/// How old an event may be whose mail is sent without an operator's release.
#[derive(Clone, Copy, Debug)]
pub struct AgeLimit(pub Duration);

impl AgeLimit {
    /// Events before this time are too old. Never before 1970: the store's clock has a smaller range
    /// than ours, and with a time outside of it no mail could be leased.
    pub fn cutoff(self, now: DateTime<Utc>) -> DateTime<Utc> {
        let limit = TimeDelta::from_std(self.0).ok();
        let cutoff = limit.and_then(|limit| now.checked_sub_signed(limit));
        cutoff
            .unwrap_or(DateTime::UNIX_EPOCH)
            .max(DateTime::UNIX_EPOCH)
    }

    /// The status of a new mail about an event of this time.
    pub fn status_of_new(self, event_time: DateTime<Utc>, now: DateTime<Utc>) -> Status {
        match event_time < self.cutoff(now) {
            true => Status::Held,
            false => Status::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_older_than_the_limit_are_held() {
        let now = DateTime::from_timestamp(1_000_000, 0).unwrap();
        let status =
            |limit: AgeLimit, age_s: i64| limit.status_of_new(now - TimeDelta::seconds(age_s), now);
        let week = AgeLimit(Duration::from_secs(604_800));
        assert_eq!(status(week, 0), Status::Pending);
        assert_eq!(status(week, 604_800), Status::Pending);
        assert_eq!(status(week, 604_801), Status::Held);
        // A clock that is ahead.
        assert_eq!(status(week, -60), Status::Pending);
        let without_end = AgeLimit(Duration::from_secs(u64::MAX));
        assert_eq!(status(without_end, 999_999), Status::Pending);
    }
}
