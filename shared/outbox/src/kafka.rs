//! The Kafka producer, and the message format.

use chrono::SecondsFormat;
use events::header;
use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord};
use telemetry::Span;

use crate::settings::Settings;
use crate::store::Row;

pub(crate) fn producer(settings: &Settings) -> Result<FutureProducer, KafkaError> {
    ClientConfig::new()
        .set("bootstrap.servers", &settings.brokers)
        // Keeps the order, and the broker drops duplicates from retries. Off by default.
        .set("enable.idempotence", "true")
        .set("acks", "all")
        // After this time-out the row is still in the outbox and is sent again.
        .set(
            "message.timeout.ms",
            settings.delivery_max.as_millis().to_string(),
        )
        // Batches come from the table; waiting for more messages would only add latency.
        .set("linger.ms", "0")
        .set("compression.type", "none")
        .create()
}

/// Passes the row to the producer. The future resolves with the delivery report.
pub(crate) fn send(
    producer: &FutureProducer,
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
    producer.send_result(record).map_err(|(error, _)| error)
}

fn text<'a>(name: &'a str, value: &'a str) -> Header<'a, &'a str> {
    Header {
        key: name,
        value: Some(value),
    }
}
