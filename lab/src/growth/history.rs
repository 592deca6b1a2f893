//! The orders that the tables are filled with: when each was placed, and its ids. Everything follows from the
//! order's number, so that several tables get rows of the same order.

use std::ops::Range;

use chrono::{DateTime, TimeDelta, Utc};
use uuid::{Builder, Uuid};

/// Settings of every service during the run. Keys and processed messages are kept for a day. The outbox keeps its
/// events for less, because a consumer must recognise every event that can be published again.
pub(super) const WINDOW_SECONDS: i64 = 86_400;
const OUTBOX_SECONDS: i64 = 64_800;
const PARTITION_SECONDS: i64 = 7_200;
/// Shorter than its default, so that the reaper works while the orders are measured.
const REAPER_INTERVAL_MS: i64 = 1_000;

/// All events of an order happen within this time.
const EVENTS_WITHIN: TimeDelta = TimeDelta::seconds(60);

/// The settings by name.
pub(super) const RETENTION: [(&str, i64); 5] = [
    ("KEY_WINDOW_SECONDS", WINDOW_SECONDS),
    ("PROCESSED_RETENTION_SECONDS", WINDOW_SECONDS),
    ("OUTBOX_RETENTION_SECONDS", OUTBOX_SECONDS),
    ("OUTBOX_PARTITION_SECONDS", PARTITION_SECONDS),
    ("REAPER_INTERVAL_MS", REAPER_INTERVAL_MS),
];

/// Orders 0 (the oldest) to `orders` (not included), which came evenly.
#[derive(Debug, Clone)]
pub(super) struct History {
    pub(super) orders: u64,
    /// How many of them came within the last [`WINDOW_SECONDS`].
    window_orders: u64,
    seed: u64,
    until: DateTime<Utc>,
}

impl History {
    /// The last order came at `until`.
    pub(super) fn new(orders: u64, window_orders: u64, until: DateTime<Utc>) -> Self {
        Self {
            orders,
            window_orders: window_orders.max(1),
            seed: rand::random(),
            until,
        }
    }

    pub(super) fn time_us(&self, order: u64) -> i64 {
        let age = self.orders.saturating_sub(order + 1) as i64;
        self.until.timestamp_micros() - age * self.step_us()
    }

    /// A time-ordered id, as the order service assigns them.
    pub(super) fn order_id(&self, order: u64) -> Uuid {
        time_ordered(self.time_us(order), self.random(order, 0))
    }

    /// The `slot`-th further id of an order: of the same version as `like`, and as much later as that id was
    /// after its own order (`later_us`).
    pub(super) fn other_id(&self, order: u64, slot: usize, like: Uuid, later_us: i64) -> Uuid {
        let random = self.random(order, slot as u64 + 1);
        match like.get_version_num() {
            7 => time_ordered(self.time_us(order) + later_us, random),
            _ => Builder::from_random_bytes(random.to_be_bytes()).into_uuid(),
        }
    }

    /// As long as the keys of the load generator.
    pub(super) fn key(&self, order: u64) -> String {
        format!("fill-{:08x}-{order:010}", self.seed as u32)
    }

    /// The orders whose keys and processed messages are still kept.
    pub(super) fn in_window(&self) -> Range<u64> {
        self.orders.saturating_sub(self.window_orders)..self.orders
    }

    /// The last orders before the window: their rows are due for removal.
    pub(super) fn expired(&self, count: u64) -> Range<u64> {
        let end = self.in_window().start;
        end.saturating_sub(count)..end
    }

    /// The end of the newest partition of the outbox that is due for removal.
    pub(super) fn partitions_kept_from(&self) -> DateTime<Utc> {
        let limit = self.until - TimeDelta::seconds(OUTBOX_SECONDS);
        begin_of_partition(limit)
    }

    /// The orders whose events are in partitions that are kept.
    pub(super) fn in_outbox(&self) -> Range<u64> {
        self.first_since(self.partitions_kept_from())..self.orders
    }

    /// The last orders before those: their events are in a partition that is due for removal.
    pub(super) fn expired_in_outbox(&self, count: u64) -> Range<u64> {
        let end = self.first_since(self.partitions_kept_from() - EVENTS_WITHIN);
        end.saturating_sub(count)..end
    }

    /// Begin and end of each partition that is kept and has rows of this history.
    pub(super) fn partitions(&self) -> Vec<(DateTime<Utc>, DateTime<Utc>)> {
        let width = TimeDelta::seconds(PARTITION_SECONDS);
        let mut from = self.partitions_kept_from();
        let mut partitions = Vec::new();
        // The current partition exists already: the service has created it.
        while from < begin_of_partition(self.until) {
            partitions.push((from, from + width));
            from += width;
        }
        partitions
    }

    fn first_since(&self, time: DateTime<Utc>) -> u64 {
        let age_us = (self.until - time).num_microseconds().unwrap_or(i64::MAX);
        let younger = age_us.max(0) / self.step_us() + 1;
        self.orders.saturating_sub(younger.unsigned_abs())
    }

    fn step_us(&self) -> i64 {
        WINDOW_SECONDS * 1_000_000 / self.window_orders as i64
    }

    /// The same bits for the same order and slot.
    fn random(&self, order: u64, slot: u64) -> u128 {
        let first = mix(self.seed ^ mix(order) ^ mix(slot << 40));
        u128::from(first) << 64 | u128::from(mix(first))
    }
}

fn time_ordered(unix_us: i64, random: u128) -> Uuid {
    let unix_ms = u64::try_from(unix_us / 1_000).unwrap_or_default();
    let [_, _, _, _, _, _, random @ ..] = random.to_be_bytes();
    Builder::from_unix_timestamp_millis(unix_ms, &random).into_uuid()
}

fn begin_of_partition(time: DateTime<Utc>) -> DateTime<Utc> {
    let into = time.timestamp().rem_euclid(PARTITION_SECONDS);
    DateTime::from_timestamp(time.timestamp() - into, 0).unwrap_or(time)
}

/// The finaliser of SplitMix64.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> History {
        let until = DateTime::from_timestamp(1_800_000_123, 0).unwrap();
        History::new(10_000, 4_320, until)
    }

    #[test]
    fn ids_follow_the_time_and_repeat() {
        let history = history();
        assert!(history.order_id(0) < history.order_id(1));
        assert_eq!(history.order_id(7), history.order_id(7));
        assert_eq!(history.time_us(9_999), history.until.timestamp_micros());
        assert_eq!(history.time_us(9_999) - history.time_us(9_998), 20_000_000);
        let like = history.order_id(1);
        assert_ne!(
            history.other_id(1, 0, like, 5),
            history.other_id(1, 1, like, 5)
        );
        assert_eq!(history.other_id(1, 0, like, 5).get_version_num(), 7);
        assert_eq!(
            history.other_id(1, 0, Uuid::new_v4(), 5).get_version_num(),
            4
        );
    }

    #[test]
    fn windows_have_the_newest_orders() {
        let history = history();
        assert_eq!(history.in_window(), 5_680..10_000);
        assert_eq!(history.expired(100), 5_580..5_680);
        let kept_us = history.partitions_kept_from().timestamp_micros();
        let kept = history.in_outbox();
        assert!(history.time_us(kept.start) >= kept_us);
        assert!(history.time_us(kept.start - 1) < kept_us);
        let expired = history.expired_in_outbox(100);
        assert!(history.time_us(expired.end - 1) < kept_us - 60_000_000);
        assert_eq!(expired.end - expired.start, 100);
    }

    #[test]
    fn partitions_are_adjacent_and_end_before_the_current_one() {
        let history = history();
        let partitions = history.partitions();
        assert_eq!(partitions[0].0, history.partitions_kept_from());
        assert!(partitions.windows(2).all(|pair| pair[0].1 == pair[1].0));
        let (_, end) = partitions[partitions.len() - 1];
        assert!(
            end <= history.until && history.until < end + TimeDelta::seconds(PARTITION_SECONDS)
        );
    }
}
