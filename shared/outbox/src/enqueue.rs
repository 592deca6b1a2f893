//! Writing events, in the caller's transaction.

use events::Envelope;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::SHARDS;

/// Adds the events to the outbox in one statement. They are published once the transaction that
/// `connection` is in has committed; wake the relay then.
///
/// Events of one order must be written while its row is locked, so that their ids are in order.
pub async fn enqueue(connection: &mut PgConnection, events: &[Envelope]) -> sqlx::Result<()> {
    if events.is_empty() {
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
    sqlx::query!(
        "insert into outbox
            (event_id, event_type, source, subject, shard, correlation_id, traceparent, payload)
         select * from unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::smallint[],
                              $6::text[], $7::text[], $8::text[])",
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

/// The shard that an order's events belong to, for statements that write the outbox themselves.
pub fn shard_of(subject: Uuid) -> i16 {
    // The remainder is below SHARDS, so the cast cannot lose anything.
    (subject.as_u128() % SHARDS as u128) as i16
}
