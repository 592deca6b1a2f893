//! Whether a mail is too old to be sent without an operator.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::domain::Status;

/// Which events have mails that are sent without an operator's release.
#[derive(Clone, Copy, Debug)]
pub struct AgeLimit {
    /// How old the event may be.
    pub age_max: Duration,
    /// The mails of earlier events are held, however recent they are: this database was restored, and
    /// does not know which of them were sent. A release before this moment does not count either.
    pub hold_before: Option<DateTime<Utc>>,
}

impl AgeLimit {
    /// The mails of events before this time are held. Never before 1970: the store's clock has a smaller
    /// range than ours, and with a time outside of it no mail could be leased.
    pub fn cutoff(self, now: DateTime<Utc>) -> DateTime<Utc> {
        let limit = TimeDelta::from_std(self.age_max).ok();
        let cutoff = limit.and_then(|limit| now.checked_sub_signed(limit));
        cutoff
            .unwrap_or(DateTime::UNIX_EPOCH)
            .max(self.released_since())
    }

    /// Only a release since this time counts.
    pub fn released_since(self) -> DateTime<Utc> {
        let since = self.hold_before.unwrap_or(DateTime::UNIX_EPOCH);
        since.max(DateTime::UNIX_EPOCH)
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
        let of = |seconds| AgeLimit {
            age_max: Duration::from_secs(seconds),
            hold_before: None,
        };
        let week = of(604_800);
        assert_eq!(status(week, 0), Status::Pending);
        assert_eq!(status(week, 604_800), Status::Pending);
        assert_eq!(status(week, 604_801), Status::Held);
        // A clock that is ahead.
        assert_eq!(status(week, -60), Status::Pending);
        let without_end = of(u64::MAX);
        assert_eq!(status(without_end, 999_999), Status::Pending);
    }

    #[test]
    fn events_before_the_hold_are_held_at_any_age() {
        let now = DateTime::from_timestamp(1_000_000, 0).unwrap();
        let restored = AgeLimit {
            age_max: Duration::from_secs(u64::MAX),
            hold_before: Some(now - TimeDelta::seconds(10)),
        };
        let status = |age_s| restored.status_of_new(now - TimeDelta::seconds(age_s), now);
        assert_eq!(status(11), Status::Held);
        assert_eq!(status(10), Status::Pending);
        assert_eq!(status(0), Status::Pending);
        assert_eq!(restored.released_since(), now - TimeDelta::seconds(10));
    }
}
