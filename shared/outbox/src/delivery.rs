//! Delivers rows to the broker in order, and reports which ones it acknowledged.

use std::collections::HashSet;
use std::time::SystemTime;

use chrono::Utc;
use rdkafka::producer::DeliveryFuture;
use telemetry::{Kind, Span, metric};
use uuid::Uuid;

use crate::kafka;
use crate::settings::Settings;
use crate::store::Row;

/// Produces all rows in order and waits for the delivery reports. Returns the ids to mark as
/// published. A delivered row is left out if an earlier event of its order failed: it is sent again
/// after that event.
pub(crate) async fn deliver(
    producer: &kafka::Producer,
    settings: &Settings,
    rows: &[Row],
) -> Vec<i64> {
    let mut blocked: HashSet<Uuid> = HashSet::new();
    let sent = send(producer, settings, rows, &mut blocked);
    (settings.reached)("relay.produced");
    let mut delivered = Vec::with_capacity(rows.len());
    for (row, report, mut span) in sent {
        let error = match report.await {
            Ok(Ok(_)) if blocked.contains(&row.subject) => continue,
            Ok(Ok(_)) => {
                delivered.push(row.id);
                let waited = (Utc::now() - row.created_at).to_std().unwrap_or_default();
                metrics::histogram!(metric::OUTBOX_WAIT_SECONDS).record(waited);
                continue;
            }
            Ok(Err((error, _))) => error.to_string(),
            Err(_) => "the producer was closed".to_owned(),
        };
        tracing::debug!(order_id = %row.subject, error, "event not delivered");
        span.fail(error);
        blocked.insert(row.subject);
    }
    delivered
}

/// Passes the rows to the producer. After a row that it rejects, later events of the same order are
/// not sent at all: they would overtake it.
fn send<'a>(
    producer: &kafka::Producer,
    settings: &Settings,
    rows: &'a [Row],
    blocked: &mut HashSet<Uuid>,
) -> Vec<(&'a Row, DeliveryFuture, Span)> {
    let mut sent = Vec::with_capacity(rows.len());
    for row in rows {
        if blocked.contains(&row.subject) {
            continue;
        }
        let mut span = publish_span(row, &settings.topic);
        match kafka::send(producer, &settings.topic, row, &span) {
            Ok(report) => sent.push((row, report, span)),
            Err(error) => {
                tracing::error!(
                    order_id = %row.subject, event_id = %row.event_id, %error,
                    "event cannot be sent and blocks later events of its order"
                );
                span.fail(error.to_string());
                blocked.insert(row.subject);
            }
        }
    }
    sent
}

/// The span starts when the row was written, so the trace shows the time spent in the outbox.
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
