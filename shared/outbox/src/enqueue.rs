//! Writes events to the outbox, in the caller's transaction.

use events::Envelope;
use service_kit::UNPROTECTED;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::{SHARDS, unprotected};

/// Adds the events to the outbox in one statement. They are published after the transaction of
/// `connection` commits; wake the relay then.
///
/// Events of one order must be written while its row is locked, so that their ids are in order.
pub async fn enqueue(connection: &mut PgConnection, events: &[Envelope]) -> sqlx::Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    if UNPROTECTED {
        unprotected::write(events);
        return Ok(());
    }
    let event_ids: Vec<Uuid> = events.iter().map(|event| event.id).collect();
    let types: Vec<&str> = events
        .iter()
        .map(|event| event.event_type.as_str())
        .collect();
    let sources: Vec<&str> = events.iter().map(|event| event.source.as_str()).collect();
    let subjects: Vec<Uuid> = events.iter().map(|event| event.subject).collect();
    let shards: Vec<i16> = events.iter().map(|event| shard_of(event.subject)).collect();
    let correlations: Vec<&str> = events.iter().map(|event| &*event.correlation_id).collect();
    let traces: Vec<Option<&str>> = events
        .iter()
        .map(|event| event.traceparent.as_deref())
        .collect();
    let payloads: Vec<&str> = events.iter().map(|event| event.payload.as_str()).collect();
    sqlx::query_file!(
        "queries/enqueue.sql",
        &event_ids,
        &types as &[&str],
        &sources as &[&str],
        &subjects,
        &shards,
        &correlations as &[&str],
        &traces as &[Option<&str>],
        &payloads as &[&str],
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The columns that a writer of the outbox fills, in the order in which [`enqueue`] lists them.
///
/// A service that inserts events in its own statement must fill exactly these columns, and leave
/// the others (`id`, `created_at`, `published_at`) to their defaults:
///
/// | column | content |
/// |---|---|
/// | `event_id` | [`Envelope::id`]: derived from the event, the same for every publication |
/// | `event_type` | [`Envelope::event_type`] as text |
/// | `source` | name of the service that publishes the event |
/// | `subject` | id of the order; becomes the Kafka key |
/// | `shard` | [`shard_of`] the subject; decides which relay publishes the row |
/// | `correlation_id` | correlation id of the request |
/// | `traceparent` | W3C trace context of the request, or null |
/// | `payload` | JSON as text |
///
/// Such a service needs a test that compares its column list with this one.
pub const COLUMNS: [&str; 8] = [
    "event_id",
    "event_type",
    "source",
    "subject",
    "shard",
    "correlation_id",
    "traceparent",
    "payload",
];

/// The shard of an order's events, for statements that insert into the outbox themselves.
pub fn shard_of(subject: Uuid) -> i16 {
    // The remainder is below SHARDS, so the cast loses nothing.
    (subject.as_u128() % SHARDS as u128) as i16
}
