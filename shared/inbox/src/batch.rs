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
    pub(crate) skipped: usize,
    /// Partition → the offset to go on from once everything here is committed.
    pub(crate) next: BTreeMap<i32, i64>,
    unreadable: Vec<Undecodable>,
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.wanted.len() + self.unreadable.len() + self.skipped
    }

    pub(crate) fn add(
        &mut self,
        message: &BorrowedMessage<'_>,
        group: &str,
        wants: impl Fn(EventType) -> bool,
    ) {
        self.next.insert(message.partition(), message.offset() + 1);
        let Some(event_type) = delivery::event_type(message).filter(|kind| wants(*kind)) else {
            self.skipped += 1;
            return;
        };
        match delivery::open(message, event_type, group) {
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
        self.next
            .retain(|partition, _| !partitions.contains(partition));
    }

    /// A wanted message that cannot be read holds its partition up, loudly: stepping over it could
    /// lose an order.
    pub(crate) fn ensure_readable(&self) -> Result<(), Undecodable> {
        self.unreadable
            .first()
            .map_or(Ok(()), |message| Err(message.clone()))
    }
}
