#![doc = include_str!("../README.md")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use events::header;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::Headers as _;
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};
use uuid::Uuid;

/// Longest wait for one response of the broker.
const BROKER_TIMEOUT: Duration = Duration::from_secs(10);

/// The number of replicas that the broker's configuration names.
const REPLICAS_OF_BROKER: TopicReplication<'_> = TopicReplication::Fixed(-1);

/// Where a message is in the topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub partition: i32,
    pub offset: i64,
}

/// Whether an event is at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Present,
    /// The log begins after the position: the broker's retention removed the message.
    Expired,
    /// The log ends before the position, or another message is there.
    Lost,
}

/// What a comparison found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    pub presence: Presence,
    /// The order of the event, if it is present.
    pub subject: Option<Uuid>,
    /// The offset after the last message of the partition.
    pub end: i64,
}

/// Reads single messages of one topic. It joins no consumer group.
#[derive(Clone)]
pub struct Log {
    /// One read at a time: a read assigns the client to its position. `None` after a failure: the
    /// next read starts a new client. A paused cluster may answer that it has no brokers. The client
    /// then forgets them, and may never look for them again.
    consumer: Arc<Mutex<Option<BaseConsumer>>>,
    brokers: Arc<str>,
    topic: Arc<str>,
}

impl Log {
    /// Creates the client. It connects with the first read.
    pub fn open(brokers: &str, topic: &str) -> anyhow::Result<Self> {
        let consumer = client(brokers)?;
        Ok(Self {
            consumer: Arc::new(Mutex::new(Some(consumer))),
            brokers: brokers.into(),
            topic: topic.into(),
        })
    }

    /// Whether the topic exists. An unreachable broker is an error.
    pub async fn exists(&self) -> anyhow::Result<bool> {
        let log = self.clone();
        let asked = tokio::task::spawn_blocking(move || {
            log.with_client(|consumer| {
                let metadata = consumer
                    .fetch_metadata(Some(&log.topic), BROKER_TIMEOUT)
                    .context("asking for the topic")?;
                let missing = RDKafkaErrorCode::UnknownTopicOrPartition;
                let is_missing = metadata.topics().iter().any(|topic| {
                    let error = topic.error().map(RDKafkaErrorCode::from);
                    error == Some(missing)
                });
                anyhow::Ok(!is_missing)
            })
        });
        asked.await.context("asking for the topic")?
    }

    /// Creates the topic with the broker's default number of replicas. An existing topic stays
    /// unchanged.
    pub async fn create(&self, partitions: i32) -> anyhow::Result<()> {
        let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", &*self.brokers)
            .create()
            .context("creating the client that creates the topic")?;
        let new = NewTopic::new(&self.topic, partitions, REPLICAS_OF_BROKER);
        let options = AdminOptions::new().operation_timeout(Some(BROKER_TIMEOUT));
        let created = admin.create_topics([&new], &options).await;
        let created = created.context("creating the topic")?;
        match created.into_iter().find_map(Result::err) {
            None | Some((_, RDKafkaErrorCode::TopicAlreadyExists)) => Ok(()),
            Some((topic, code)) => bail!("cannot create the topic {topic}: {code}"),
        }
    }

    /// Whether the event with this id is at this position.
    pub async fn presence(&self, event_id: Uuid, position: Position) -> anyhow::Result<Presence> {
        let Position { partition, offset } = position;
        let compared = self.compare(partition, Some((offset, event_id))).await?;
        Ok(compared.presence)
    }

    /// Compares a partition with an event and its offset, and finds the end of the partition. Without an event nothing
    /// can be missing.
    pub async fn compare(
        &self,
        partition: i32,
        event: Option<(i64, Uuid)>,
    ) -> anyhow::Result<Compared> {
        let log = self.clone();
        // The client blocks its thread until the broker responds.
        let read = move || log.with_client(|consumer| log.read(consumer, partition, event));
        let read = tokio::task::spawn_blocking(read);
        read.await.context("reading a position")?
    }

    /// Blocks the thread.
    fn with_client<T>(
        &self,
        read: impl FnOnce(&BaseConsumer) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut place = self.consumer.lock().unwrap_or_else(PoisonError::into_inner);
        let consumer = match place.take() {
            Some(consumer) => consumer,
            None => client(&self.brokers)?,
        };
        let result = read(&consumer);
        match &result {
            Ok(_) => *place = Some(consumer),
            // Closing may wait for brokers that are unreachable, so it runs on its own thread.
            Err(_) => drop(std::thread::spawn(move || drop(consumer))),
        }
        result
    }

    fn read(
        &self,
        consumer: &BaseConsumer,
        partition: i32,
        event: Option<(i64, Uuid)>,
    ) -> anyhow::Result<Compared> {
        let (start, end) = consumer
            .fetch_watermarks(&self.topic, partition, BROKER_TIMEOUT)
            .with_context(|| format!("reading the ends of partition {partition}"))?;
        let (presence, subject) = match event {
            None => (Presence::Present, None),
            Some((offset, _)) if offset < start => (Presence::Expired, None),
            Some((offset, _)) if offset >= end => (Presence::Lost, None),
            Some((offset, event_id)) => {
                let found = self.event_at(consumer, Position { partition, offset });
                consumer
                    .unassign()
                    .context("leaving the position that was read")?;
                match found? {
                    (Some(found), subject) if found == event_id => (Presence::Present, subject),
                    _ => (Presence::Lost, None),
                }
            }
        };
        Ok(Compared {
            presence,
            subject,
            end,
        })
    }

    /// The id and the subject of the message at the position, or of the next one if nothing is stored there. `None` for
    /// what the message does not have.
    fn event_at(
        &self,
        consumer: &BaseConsumer,
        position: Position,
    ) -> anyhow::Result<(Option<Uuid>, Option<Uuid>)> {
        let mut at = TopicPartitionList::new();
        let offset = Offset::Offset(position.offset);
        at.add_partition_offset(&self.topic, position.partition, offset)?;
        consumer.assign(&at).context("going to the position")?;
        let deadline = Instant::now() + BROKER_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                bail!("no message at {position:?} within {BROKER_TIMEOUT:?}");
            }
            let Some(message) = consumer.poll(left) else {
                continue;
            };
            let message =
                message.with_context(|| format!("reading the message at {position:?}"))?;
            let headers = message.headers();
            let read = |name| {
                let found = headers.and_then(|all| all.iter().find(|it| it.key == name));
                let text = std::str::from_utf8(found?.value?).ok()?;
                text.parse().ok()
            };
            return Ok((read(header::ID), read(header::SUBJECT)));
        }
    }
}

fn client(brokers: &str) -> anyhow::Result<BaseConsumer> {
    ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("client.id", "topic-log")
        // The client requires a name, and does not use it without a subscription.
        .set("group.id", "topic-log")
        .set("enable.auto.commit", "false")
        // An offset outside the log is an error here, not a reason to read from elsewhere.
        .set("auto.offset.reset", "error")
        .set("fetch.wait.max.ms", "50")
        // One message is read at a time, so read-ahead is wasted.
        .set("queued.min.messages", "1")
        .set("fetch.message.max.bytes", "65536")
        .create()
        .context("creating the client that reads positions")
}
