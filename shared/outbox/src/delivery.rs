//! Rows on their way to the broker, in order, and what came of each.

use std::collections::HashSet;
use std::time::SystemTime;

use chrono::Utc;
use rdkafka::producer::{DeliveryFuture, FutureProducer};
use telemetry::{Kind, Span, metric};
use uuid::Uuid;

use crate::kafka;
use crate::settings::Settings;
use crate::store::Row;

/// Produces all rows in order and waits for the reports. Returns the ids to mark: delivered, and
/// with no earlier event of the same order that was refused, which would have to come first.
pub(crate) async fn deliver(
    producer: &FutureProducer,
    settings: &Settings,
    rows: &[Row],
) -> Vec<i64> {
    let mut held_up: HashSet<Uuid> = HashSet::new();
    let sent = send(producer, settings, rows, &mut held_up);
    (settings.reached)("relay.produced");
    let mut delivered = Vec::with_capacity(rows.len());
    for (row, report, mut span) in sent {
        let error = match report.await {
            Ok(Ok(_)) if held_up.contains(&row.subject) => continue,
            Ok(Ok(_)) => {
                delivered.push(row.id);
                let waited = (Utc::now() - row.created_at).to_std().unwrap_or_default();
                metrics::histogram!(metric::OUTBOX_WAIT_SECONDS).record(waited);
                continue;
            }
            Ok(Err((error, _))) => error.to_string(),
            Err(_) => "the producer was closed".to_owned(),
        };
        tracing::debug!(order_id = %row.subject, error, "an event was not delivered");
        span.fail(error);
        held_up.insert(row.subject);
    }
    delivered
}

/// Hands the rows over. Once one is refused, the later events of its order are not sent at all:
/// they would overtake it, again with every try.
fn send<'a>(
    producer: &FutureProducer,
    settings: &Settings,
    rows: &'a [Row],
    held_up: &mut HashSet<Uuid>,
) -> Vec<(&'a Row, DeliveryFuture, Span)> {
    let mut sent = Vec::with_capacity(rows.len());
    for row in rows {
        if held_up.contains(&row.subject) {
            continue;
        }
        let mut span = publish_span(row, &settings.topic);
        match kafka::send(producer, &settings.topic, row, &span) {
            Ok(report) => sent.push((row, report, span)),
            Err(error) => {
                tracing::error!(
                    order_id = %row.subject, event_id = %row.event_id, %error,
                    "an event cannot be sent, and holds up the later ones of its order"
                );
                span.fail(error.to_string());
                held_up.insert(row.subject);
            }
        }
    }
    sent
}

/// Starts when the row was written, so that the time spent in the outbox is part of the trace.
fn publish_span(row: &Row, topic: &str) -> Span {
    let written_at = SystemTime::from(row.created_at);
    let parent = row.traceparent.as_deref();
    let name = format!("send {topic}");
    let mut span = Span::start_at(name, Kind::Producer, parent, Some(written_at));
    span.set("messaging.system", || "kafka");
    span.set("messaging.operation.type", || "send");
    span.set("messaging.destination.name", || topic.to_owned());
    span.set("messaging.message.id", || row.event_id.to_string());
    span.set("messaging.kafka.message.key", || row.subject.to_string());
    span.set("event.type", || row.event_type.clone());
    span.set("order.id", || row.subject.to_string());
    span.set("correlation_id", || row.correlation_id.clone());
    span.set("outbox.wait_ms", || {
        (Utc::now() - row.created_at).num_milliseconds()
    });
    span
}
