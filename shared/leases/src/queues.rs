//! The queues of all principals: when to look into each, and where it begins.
//!
//! Each principal has its own queue, so that a worker can leave the backlog of one principal alone
//! without reading past it. Reading an empty queue costs a few pages. So a worker looks into a
//! queue when it is woken for it, and otherwise once per poll interval.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::Notify;
use tokio::time::Instant;

/// What a worker knows about the queues. It has one entry for each principal.
#[derive(Debug)]
pub struct Queues {
    poll: Duration,
    due: Arc<Notify>,
    entries: Mutex<HashMap<Arc<str>, Entry>>,
    last_activity: Mutex<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    next_look: Instant,
    floor: DateTime<Utc>,
    /// Whether the queue may have due rows.
    is_behind: bool,
}

/// The part of a queue in which to look for its first row: after `after` and up to `until`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub principal: Arc<str>,
    pub after: DateTime<Utc>,
    pub until: DateTime<Utc>,
}

impl Queues {
    /// `poll`: how often to look into a queue if nothing wakes the worker for it.
    pub fn new(poll: Duration) -> Self {
        Self {
            poll,
            due: Arc::default(),
            entries: Mutex::default(),
            last_activity: Mutex::new(Instant::now()),
        }
    }

    /// Whether this process leased rows in the last `period`.
    pub fn is_active(&self, period: Duration) -> bool {
        self.last_activity().elapsed() < period
    }

    pub(crate) fn note_activity(&self) {
        *self.last_activity() = Instant::now();
    }

    fn last_activity(&self) -> MutexGuard<'_, Instant> {
        let last = self.last_activity.lock();
        last.unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the worker to look into the queue of this principal.
    pub fn wake(&self, principal: &str) {
        self.again(principal);
        self.due.notify_one();
    }

    /// Adds queues that are new to this process.
    pub fn learn(&self, principals: impl IntoIterator<Item = String>) {
        let mut entries = self.entries();
        for principal in principals {
            entries.entry(principal.into()).or_insert_with(Entry::new);
        }
    }

    /// The floor of a queue: it has no open row up to this time.
    pub fn floor(&self, principal: &str) -> DateTime<Utc> {
        let floor = self.entries().get(principal).map(|entry| entry.floor);
        floor.unwrap_or(DateTime::<Utc>::UNIX_EPOCH)
    }

    /// The parts of all queues that may have become empty, given that every row up to `visible` is
    /// visible. A full scan starts at the beginning: it finds a row below a floor, which exists only
    /// if the clock of the database was set back.
    pub fn ranges(&self, visible: Option<DateTime<Utc>>, full: bool) -> Vec<Range> {
        let entries = self.entries();
        let ranges = entries.iter().map(|(principal, entry)| Range {
            principal: principal.clone(),
            after: if full {
                DateTime::<Utc>::UNIX_EPOCH
            } else {
                entry.floor
            },
            until: visible.unwrap_or(entry.floor).max(entry.floor),
        });
        ranges.filter(|range| range.after < range.until).collect()
    }

    /// The parts of all queues that may have rows which are due now.
    pub fn due_ranges(&self, now: DateTime<Utc>) -> Vec<Range> {
        let entries = self.entries();
        let ranges = entries.iter().map(|(principal, entry)| Range {
            principal: principal.clone(),
            after: entry.floor,
            until: now.max(entry.floor),
        });
        ranges.collect()
    }

    /// Moves the floor of a queue: right below its first row, or to the end of the range.
    pub fn set_floor(&self, range: &Range, first: Option<DateTime<Utc>>) {
        let below_first = first.map(|first| first - Duration::from_micros(1));
        if let Some(entry) = self.entries().get_mut(&range.principal) {
            entry.floor = below_first.unwrap_or(range.until);
        }
    }

    /// Wakes the worker.
    pub(crate) fn due(&self) -> &Arc<Notify> {
        &self.due
    }

    /// The queues to look into now, the longest waiting first. Their next look is one poll interval
    /// later, unless [`Self::again`] or [`Self::wake`] says otherwise.
    pub(crate) fn take_due(&self) -> Vec<Arc<str>> {
        let now = Instant::now();
        let mut due: Vec<(Instant, Arc<str>)> = Vec::new();
        for (principal, entry) in self.entries().iter_mut() {
            if entry.next_look <= now {
                due.push((entry.next_look, principal.clone()));
                entry.next_look = now + self.poll;
            }
        }
        due.sort_unstable();
        due.into_iter().map(|(_, principal)| principal).collect()
    }

    /// Looks into this queue again in the next step: it may have more due rows.
    pub(crate) fn again(&self, principal: &str) {
        let mut entries = self.entries();
        match entries.get_mut(principal) {
            Some(entry) => {
                entry.next_look = entry.next_look.min(Instant::now());
                entry.is_behind = true;
            }
            None => {
                entries.insert(principal.into(), Entry::new());
            }
        }
    }

    /// A look has taken all due rows of this queue. A wake during the look counts.
    pub(crate) fn caught_up(&self, principal: &str) {
        if let Some(entry) = self.entries().get_mut(principal) {
            entry.is_behind = entry.next_look <= Instant::now();
        }
    }

    /// Whether rows of this queue may wait for the worker.
    pub(crate) fn is_behind(&self, principal: &str) -> bool {
        let entries = self.entries();
        entries.get(principal).is_none_or(|entry| entry.is_behind)
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn new() -> Self {
        Self {
            next_look: Instant::now(),
            floor: DateTime::<Utc>::UNIX_EPOCH,
            is_behind: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: Duration = Duration::from_millis(250);

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    fn names(due: Vec<Arc<str>>) -> Vec<String> {
        due.iter().map(ToString::to_string).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn queue_is_looked_into_when_woken_and_once_per_poll() {
        let queues = Queues::new(POLL);
        queues.learn(["a".to_owned()]);
        assert_eq!(names(queues.take_due()), ["a"]);
        assert!(queues.take_due().is_empty());
        queues.wake("b");
        assert_eq!(names(queues.take_due()), ["b"]);
        tokio::time::advance(POLL).await;
        queues.again("b");
        assert_eq!(queues.take_due().len(), 2);
    }

    #[test]
    fn floor_stays_below_the_first_row() {
        let queues = Queues::new(POLL);
        queues.learn(["a".to_owned()]);
        let ranges = queues.ranges(Some(at(100)), false);
        queues.set_floor(&ranges[0], Some(at(50)));
        assert!(queues.floor("a") < at(50) && queues.floor("a") > at(49));
        queues.set_floor(&ranges[0], None);
        assert_eq!(queues.floor("a"), at(100));
        assert!(queues.ranges(None, false).is_empty());
    }

    #[test]
    fn full_scan_finds_a_row_below_the_floor() {
        let queues = Queues::new(POLL);
        queues.learn(["a".to_owned()]);
        queues.set_floor(&queues.ranges(Some(at(100)), false)[0], None);
        let full = queues.ranges(None, true);
        assert_eq!(
            (full[0].after, full[0].until),
            (DateTime::UNIX_EPOCH, at(100))
        );
        queues.set_floor(&full[0], Some(at(7)));
        assert!(queues.floor("a") < at(7));
    }
}
