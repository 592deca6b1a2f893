//! Reads the topic from its start to where it ends now, outside of any consumer group: for a service
//! that reads back what it has published itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use events::{Envelope, EventType};
use rdkafka::consumer::{Consumer as _, StreamConsumer};
use rdkafka::error::KafkaError;
use rdkafka::message::BorrowedMessage;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use crate::raw_message::{self, Position, RawMessage};

/// Longest wait for one response of the broker.
const BROKER_TIMEOUT: Duration = Duration::from_secs(10);
/// Messages that are read before [`History::next`] returns, wanted or not. Limits its memory.
const READ_MAX: usize = 2_000;

/// The messages that a topic has when this is opened.
pub struct History {
    kafka: Arc<StreamConsumer>,
    /// Partitions that are not read to their end, and where each ends.
    ends: BTreeMap<i32, i64>,
}

impl History {
    /// Goes to the start of every partition, and notes where each ends.
    pub async fn open(brokers: &str, topic: &str) -> anyhow::Result<Self> {
        let kafka: StreamConsumer = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            // The client requires a name, and does not use it without a subscription.
            .set("group.id", "history")
            .set("enable.auto.commit", "false")
            .set("isolation.level", "read_committed")
            .set("auto.offset.reset", "earliest")
            .set("enable.partition.eof", "true")
            .set("fetch.wait.max.ms", "50")
            .create()
            .context("creating the client that reads the topic")?;
        let kafka = Arc::new(kafka);
        let (client, name) = (kafka.clone(), topic.to_owned());
        // The client blocks its thread until the broker responds.
        let open = tokio::task::spawn_blocking(move || assign(&client, &name));
        let ends = open.await.context("opening the topic")??;
        Ok(Self { kafka, ends })
    }

    /// The next events of the wanted types, perhaps none; `None` after the last. Events of one
    /// partition keep their order. A message that cannot be read is skipped: the consumer parks it.
    pub async fn next(
        &mut self,
        wants: impl Fn(EventType) -> bool,
    ) -> anyhow::Result<Option<Vec<Envelope>>> {
        if self.ends.is_empty() {
            return Ok(None);
        }
        let mut found = Vec::new();
        let kafka = self.kafka.clone();
        for _ in 0..READ_MAX {
            if self.ends.is_empty() {
                break;
            }
            let received = tokio::time::timeout(BROKER_TIMEOUT, kafka.recv()).await;
            match received.context("the broker delivers nothing")? {
                Ok(message) => {
                    if self.is_part(&message) {
                        found.extend(decode(&message, &wants));
                    }
                }
                Err(KafkaError::PartitionEOF(partition)) => {
                    self.ends.remove(&partition);
                }
                Err(error) => return Err(error).context("reading the topic"),
            }
        }
        Ok(Some(found))
    }

    /// Whether the message was there when the topic was opened.
    fn is_part(&mut self, message: &BorrowedMessage<'_>) -> bool {
        let Position { partition, offset } = Position::of(message);
        let Some(end) = self.ends.get(&partition) else {
            return false;
        };
        let is_part = offset < *end;
        if offset + 1 >= *end {
            self.ends.remove(&partition);
        }
        is_part
    }
}

/// Blocks the thread. Returns the end of each partition that has messages.
fn assign(kafka: &StreamConsumer, topic: &str) -> anyhow::Result<BTreeMap<i32, i64>> {
    let metadata = kafka.fetch_metadata(Some(topic), BROKER_TIMEOUT);
    let metadata = metadata.context("asking for the topic")?;
    let Some(found) = metadata.topics().iter().find(|it| it.name() == topic) else {
        bail!("the broker does not know the topic {topic}");
    };
    if found.partitions().is_empty() {
        bail!("the topic {topic} does not exist");
    }
    let mut ends = BTreeMap::new();
    let mut starts = TopicPartitionList::new();
    for partition in found.partitions() {
        let id = partition.id();
        let (start, end) = kafka
            .fetch_watermarks(topic, id, BROKER_TIMEOUT)
            .with_context(|| format!("reading the ends of partition {id}"))?;
        if start < end {
            starts.add_partition_offset(topic, id, Offset::Offset(start))?;
            ends.insert(id, end);
        }
    }
    kafka.assign(&starts).context("going to the start")?;
    Ok(ends)
}

fn decode(message: &BorrowedMessage<'_>, wants: &impl Fn(EventType) -> bool) -> Option<Envelope> {
    let event_type = raw_message::event_type(message).ok().flatten()?;
    if !wants(event_type) {
        return None;
    }
    match RawMessage::of(message).decode(event_type) {
        Ok(envelope) => Some(envelope),
        Err(error) => {
            let position = Position::of(message);
            tracing::warn!(?position, %error, "message skipped: it cannot be read");
            None
        }
    }
}
