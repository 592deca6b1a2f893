//! Messages taken from Kafka whose offsets are not stored yet.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use events::EventType;
use rdkafka::message::{BorrowedMessage, Message as _};
use uuid::Uuid;

use crate::checkpoint::Checkpoint;
use crate::delivery::Delivery;
use crate::raw_message::{self, DecodeError, Position, RawMessage};

#[derive(Default)]
pub(crate) struct Batch {
    /// Messages still to be processed, in the order of their partitions.
    pub(crate) messages: Vec<Message>,
    /// Counts of the messages that are done.
    pub(crate) tally: Tally,
    /// A message failed or cannot be read, so each message gets its own transaction.
    pub(crate) one_by_one: bool,
    /// When the newest wanted message was published, in milliseconds since 1970.
    pub(crate) newest_ms: Option<i64>,
    partitions: BTreeMap<i32, Progress>,
}

/// A message that the handler wants, or one of unknown type.
pub(crate) struct Message {
    pub(crate) position: Position,
    pub(crate) content: Content,
    /// How many times the handler has failed on this message alone.
    pub(crate) tries: u32,
}

#[expect(
    clippy::large_enum_variant,
    reason = "nearly all messages are of the large variant"
)]
pub(crate) enum Content {
    Readable(Delivery),
    Unreadable(RawMessage, DecodeError),
}

/// Counts of messages by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) fresh: usize,
    pub(crate) duplicates: usize,
    pub(crate) parked: usize,
}

/// How far a partition has been read.
struct Progress {
    /// The offset of the first message.
    first_offset: i64,
    /// The offset to store once everything before it is committed.
    next_offset: i64,
    /// The newest message that has an id.
    newest: Option<Checkpoint>,
    skipped: usize,
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.messages.len() + self.skipped()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// When the newest message was published, unless all were processed before: those waited for nothing.
    pub(crate) fn newest(&self) -> Option<SystemTime> {
        let newest = self.newest_ms.filter(|_| self.tally.fresh > 0)?;
        let since_epoch = Duration::from_millis(u64::try_from(newest).ok()?);
        Some(SystemTime::UNIX_EPOCH + since_epoch)
    }

    /// Number of messages of types that the handler does not want.
    pub(crate) fn skipped(&self) -> usize {
        let all = self.partitions.values();
        all.map(|progress| progress.skipped).sum()
    }

    /// Partition, first and next offset.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = (i32, i64, i64)> {
        let all = self.partitions.iter();
        all.map(|(partition, it)| (*partition, it.first_offset, it.next_offset))
    }

    /// The newest message of each partition.
    pub(crate) fn checkpoints(&self) -> impl Iterator<Item = (i32, Checkpoint)> {
        let all = self.partitions.iter();
        all.filter_map(|(partition, progress)| Some((*partition, progress.newest?)))
    }

    pub(crate) fn add(
        &mut self,
        message: &BorrowedMessage<'_>,
        origin: (&str, &str),
        wants: impl Fn(EventType) -> bool,
    ) {
        let position = Position::of(message);
        let offset = position.offset;
        let progress = self
            .partitions
            .entry(position.partition)
            .or_insert_with(|| Progress {
                first_offset: offset,
                next_offset: offset,
                newest: None,
                skipped: 0,
            });
        progress.next_offset = offset + 1;
        if let Some(event_id) = raw_message::event_id(message) {
            progress.newest = Some(Checkpoint { offset, event_id });
        }
        let decoded = match raw_message::event_type(message) {
            Ok(Some(event_type)) if wants(event_type) => {
                self.newest_ms = self.newest_ms.max(message.timestamp().to_millis());
                Delivery::decode(RawMessage::of(message), event_type, position, origin)
            }
            Ok(_) => {
                progress.skipped += 1;
                return;
            }
            Err(error) => Err((RawMessage::of(message), error)),
        };
        let content = match decoded {
            Ok(delivery) => Content::Readable(delivery),
            Err((raw, error)) => {
                self.one_by_one = true;
                Content::Unreadable(raw, error)
            }
        };
        self.messages.push(Message {
            position,
            content,
            tries: 0,
        });
    }

    /// Drops the work on partitions that this client no longer owns.
    pub(crate) fn forget(&mut self, partitions: &[i32]) {
        self.messages
            .retain(|message| !partitions.contains(&message.position.partition));
        self.partitions
            .retain(|partition, _| !partitions.contains(partition));
    }
}

impl Message {
    pub(crate) fn subject(&self) -> Option<Uuid> {
        match &self.content {
            Content::Readable(delivery) => Some(delivery.envelope.subject),
            Content::Unreadable(raw, _) => raw.subject(),
        }
    }

    /// The message exactly as it was received.
    pub(crate) fn raw_message(&self) -> RawMessage {
        match &self.content {
            Content::Readable(delivery) => delivery.raw_message(),
            Content::Unreadable(raw, _) => raw.clone(),
        }
    }

    /// The id under which it is recorded as processed; `None` if the message cannot be read.
    pub(crate) fn processed_id(&self) -> Option<Uuid> {
        match &self.content {
            Content::Readable(delivery) => Some(delivery.envelope.id),
            Content::Unreadable(..) => None,
        }
    }
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.fresh += other.fresh;
        self.duplicates += other.duplicates;
        self.parked += other.parked;
    }
}
