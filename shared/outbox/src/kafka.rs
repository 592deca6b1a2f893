//! The Kafka producer, and the message format.

use std::time::Duration;

use chrono::SecondsFormat;
use events::header;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord, Producer as _};
use rdkafka::{ClientConfig, ClientContext};
use telemetry::Span;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::settings::Settings;
use crate::store::Row;

/// Longest wait for the list of partitions and leaders.
const METADATA_TIMEOUT: Duration = Duration::from_secs(2);

/// A producer, and whether it may still send.
pub(crate) struct Producer {
    client: FutureProducer<Connections>,
    brokers_lost: CancellationToken,
}

/// The partitions of the topic.
#[derive(Clone, Debug)]
pub(crate) struct Partitions {
    count: u32,
    without_leader: Vec<i32>,
}

impl Partitions {
    /// The partition of an order's events. The same rule as the producer's default partitioner.
    pub(crate) fn of(&self, subject: Uuid) -> i32 {
        let hash = crc32fast::hash(subject.to_string().as_bytes());
        // The remainder is below the count, which fits.
        (hash % self.count) as i32
    }

    pub(crate) fn is_without_leader(&self, partition: i32) -> bool {
        self.without_leader.contains(&partition)
    }
}

/// Notices that the client has lost the connection to all its brokers.
struct Connections {
    lost: CancellationToken,
}

impl ClientContext for Connections {
    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "producer reports an error");
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AllBrokersDown) {
            self.lost.cancel();
        }
    }
}

impl Producer {
    /// Why this producer must not send any more, if there is a reason.
    ///
    /// After a fatal error it rejects all further work. After it lost all brokers, they may come back
    /// without their data. They then have also forgotten which producer ids they gave out, and may
    /// give this producer's id to another one. They would treat messages of one producer as duplicates
    /// of the other's: acknowledge them without storing them.
    pub(crate) fn defect(&self) -> Option<String> {
        if let Some((code, reason)) = self.client.client().fatal_error() {
            return Some(format!("{code}: {reason}"));
        }
        let lost = self.brokers_lost.is_cancelled();
        lost.then(|| "all brokers were unreachable, or reports did not come".to_owned())
    }

    /// Asks the brokers for the partitions of the topic. `None` if no broker responds or the topic does
    /// not exist.
    pub(crate) async fn partitions(&self, topic: &str) -> Option<Partitions> {
        let (client, topic) = (self.client.clone(), topic.to_owned());
        // The client blocks its thread until a broker responds.
        let asked = tokio::task::spawn_blocking(move || {
            let metadata = client
                .client()
                .fetch_metadata(Some(&topic), METADATA_TIMEOUT);
            let metadata = metadata.ok()?;
            let topic = metadata.topics().first()?;
            let all = topic.partitions();
            let without_leader = all.iter().filter(|it| it.leader() < 0);
            Some(Partitions {
                count: u32::try_from(all.len()).ok().filter(|count| *count > 0)?,
                without_leader: without_leader.map(|it| it.id()).collect(),
            })
        });
        asked.await.ok().flatten()
    }

    /// Waits until the producer has lost all its brokers, or was abandoned.
    pub(crate) async fn brokers_lost(&self) {
        self.brokers_lost.cancelled().await;
    }

    /// Makes the relay replace the producer, because it does not report its deliveries.
    pub(crate) fn abandon(&self) {
        self.brokers_lost.cancel();
    }
}

pub(crate) fn producer(settings: &Settings) -> Result<Producer, KafkaError> {
    let brokers_lost = CancellationToken::new();
    let connections = Connections {
        lost: brokers_lost.clone(),
    };
    let client = ClientConfig::new()
        .set("bootstrap.servers", &settings.brokers)
        // Keeps the order, and the broker drops duplicates from retries. Off by default.
        .set("enable.idempotence", "true")
        .set("acks", "all")
        // After this timeout the row is still in the outbox and is sent again.
        .set(
            "message.timeout.ms",
            settings.delivery_max.as_millis().to_string(),
        )
        // Batches come from the table; waiting for more messages would only add latency.
        .set("linger.ms", "0")
        .set("compression.type", "none")
        .create_with_context(connections)?;
    Ok(Producer {
        client,
        brokers_lost,
    })
}

/// Passes the row to the producer. The future resolves with the delivery report.
pub(crate) fn send(
    producer: &Producer,
    topic: &str,
    row: &Row,
    span: &Span,
) -> Result<DeliveryFuture, KafkaError> {
    let key = row.subject.to_string();
    let id = row.event_id.to_string();
    let time = row.created_at.to_rfc3339_opts(SecondsFormat::Micros, true);
    let traceparent = span.traceparent();
    let mut headers = OwnedHeaders::new_with_capacity(9);
    for (name, value) in [
        (header::SPEC_VERSION, header::SPEC_VERSION_VALUE),
        (header::ID, &id),
        (header::TYPE, &row.event_type),
        (header::SOURCE, &row.source),
        (header::SUBJECT, &key),
        (header::TIME, &time),
        (header::CONTENT_TYPE, header::CONTENT_TYPE_VALUE),
        (header::CORRELATION_ID, &row.correlation_id),
    ] {
        headers = headers.insert(text(name, value));
    }
    if let Some(traceparent) = &traceparent {
        headers = headers.insert(text(header::TRACEPARENT, traceparent));
    }
    let record = FutureRecord::to(topic)
        .key(&key)
        .payload(&row.payload)
        .headers(headers);
    producer
        .client
        .send_result(record)
        .map_err(|(error, _)| error)
}

/// Whether Kafka rejects this very message, so that sending it again cannot help.
pub(crate) fn is_rejection(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            RDKafkaErrorCode::MessageSizeTooLarge
                | RDKafkaErrorCode::InvalidRecord
                | RDKafkaErrorCode::PolicyViolation
        )
    )
}

fn text<'a>(name: &'a str, value: &'a str) -> Header<'a, &'a str> {
    Header {
        key: name,
        value: Some(value),
    }
}
