//! Messages taken from Kafka whose offsets are not stored yet.

use std::collections::BTreeMap;

use events::EventType;
use rdkafka::message::BorrowedMessage;
use uuid::Uuid;

use crate::delivery::Delivery;
use crate::wire::{self, Position, Undecodable, Wire};

#[derive(Default)]
pub(crate) struct Batch {
    /// What is still to be done, in the order of the partitions.
    pub(crate) messages: Vec<Message>,
    /// What came of those that are done.
    pub(crate) tally: Tally,
    /// A message of it has failed, or cannot be read: it is worked off one by one.
    pub(crate) suspect: bool,
    partitions: BTreeMap<i32, Progress>,
}

/// A message that the handler asked for, or that might be one.
pub(crate) struct Message {
    pub(crate) position: Position,
    pub(crate) content: Content,
    /// How often the handler has failed on it alone.
    pub(crate) tries: u32,
}

#[expect(
    clippy::large_enum_variant,
    reason = "nearly all messages are of the large kind"
)]
pub(crate) enum Content {
    Readable(Delivery),
    Unreadable(Wire, Undecodable),
}

/// What came of messages, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) fresh: usize,
    pub(crate) duplicates: usize,
    pub(crate) parked: usize,
}

/// How far a partition has been read.
#[derive(Default)]
struct Progress {
    /// The offset to go on from once everything here is committed.
    next: i64,
    skipped: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.fresh += other.fresh;
        self.duplicates += other.duplicates;
        self.parked += other.parked;
    }
}

impl Message {
    pub(crate) fn subject(&self) -> Option<Uuid> {
        match &self.content {
            Content::Readable(delivery) => Some(delivery.envelope.subject),
            Content::Unreadable(wire, _) => wire.subject(),
        }
    }

    /// As it came.
    pub(crate) fn wire(&self) -> Wire {
        match &self.content {
            Content::Readable(delivery) => delivery.wire(),
            Content::Unreadable(wire, _) => wire.clone(),
        }
    }

    /// The id that the ledger knows, if the message can be read.
    pub(crate) fn ledger_id(&self) -> Option<Uuid> {
        match &self.content {
            Content::Readable(delivery) => Some(delivery.envelope.id),
            Content::Unreadable(..) => None,
        }
    }
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.messages.len() + self.skipped()
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
        origin: (&str, &str),
        wants: impl Fn(EventType) -> bool,
    ) {
        let position = Position::of(message);
        let progress = self.partitions.entry(position.partition).or_default();
        progress.next = position.offset + 1;
        let opened = match wire::event_type(message) {
            Ok(Some(event_type)) if wants(event_type) => {
                Delivery::open(Wire::of(message), event_type, position, origin)
            }
            Ok(_) => {
                progress.skipped += 1;
                return;
            }
            Err(error) => Err((Wire::of(message), error)),
        };
        let content = match opened {
            Ok(delivery) => Content::Readable(delivery),
            Err((wire, error)) => {
                self.suspect = true;
                Content::Unreadable(wire, error)
            }
        };
        self.messages.push(Message {
            position,
            content,
            tries: 0,
        });
    }

    /// Drops the work of partitions that somebody else owns now.
    pub(crate) fn forget(&mut self, partitions: &[i32]) {
        self.messages
            .retain(|message| !partitions.contains(&message.position.partition));
        self.partitions
            .retain(|partition, _| !partitions.contains(partition));
    }
}
