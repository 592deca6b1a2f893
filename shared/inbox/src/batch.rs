//! Messages taken from Kafka whose offsets are not stored yet.

use std::collections::BTreeMap;

use events::EventType;
use rdkafka::Message as _;
use rdkafka::message::BorrowedMessage;

use crate::delivery::{self, Delivery, Undecodable};

#[derive(Default)]
pub(crate) struct Batch {
    /// What the handler asked for, in the order of the partitions.
    pub(crate) wanted: Vec<Delivery>,
    unreadable: Vec<Undecodable>,
    partitions: BTreeMap<i32, Progress>,
}

/// How far a partition has been read.
#[derive(Default)]
struct Progress {
    /// The offset to go on from once everything here is committed.
    next: i64,
    skipped: usize,
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.wanted.len() + self.unreadable.len() + self.skipped()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// Messages that were for somebody else.
    pub(crate) fn skipped(&self) -> usize {
        let all = self.partitions.values();
        all.map(|progress| progress.skipped).sum()
    }

    /// Partition and offset to go on from once everything here is committed.
    pub(crate) fn next_offsets(&self) -> impl Iterator<Item = (i32, i64)> {
        let all = self.partitions.iter();
        all.map(|(partition, progress)| (*partition, progress.next))
    }

    pub(crate) fn add(
        &mut self,
        message: &BorrowedMessage<'_>,
        group: &str,
        wants: impl Fn(EventType) -> bool,
    ) {
        let progress = self.partitions.entry(message.partition()).or_default();
        progress.next = message.offset() + 1;
        let opened = match delivery::event_type(message) {
            Ok(Some(event_type)) if wants(event_type) => delivery::open(message, event_type, group),
            Ok(_) => {
                progress.skipped += 1;
                return;
            }
            Err(error) => Err(error),
        };
        match opened {
            Ok(delivery) => self.wanted.push(delivery),
            Err(error) => self.unreadable.push(error),
        }
    }

    /// Drops the work of partitions that somebody else owns now.
    pub(crate) fn forget(&mut self, partitions: &[i32]) {
        self.wanted
            .retain(|delivery| !partitions.contains(&delivery.position.partition));
        self.unreadable
            .retain(|message| !partitions.contains(&message.position.partition));
        self.partitions
            .retain(|partition, _| !partitions.contains(partition));
    }

    /// A message that is wanted, or does not say what it is, and cannot be read holds its partition up, loudly: stepping over it could
    /// lose an order.
    pub(crate) fn ensure_readable(&self) -> Result<(), Undecodable> {
        self.unreadable
            .first()
            .map_or(Ok(()), |message| Err(message.clone()))
    }
}
