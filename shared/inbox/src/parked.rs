//! Store functions for parked messages: the failed message of an order, and the queue behind it.

pub(crate) mod orders;
pub(crate) mod summary;

use sqlx::PgConnection;
use uuid::Uuid;

use crate::raw_message::{Position, RawMessage};

/// Longest cause that is stored.
const CAUSE_CHARS_MAX: usize = 2_000;

/// A parked message with everything needed to handle it.
pub(crate) struct Parked {
    pub(crate) id: i64,
    pub(crate) subject: Option<Uuid>,
    /// True for a failed message, false for one that waits behind it.
    pub(crate) failed: bool,
    pub(crate) cause: String,
    pub(crate) raw: RawMessage,
    pub(crate) position: Position,
}

/// A message to be parked.
pub(crate) struct NewParked {
    pub(crate) raw: RawMessage,
    pub(crate) subject: Option<Uuid>,
    /// The id under which it would be recorded as processed; `None` if it cannot be read.
    pub(crate) processed_id: Option<Uuid>,
    pub(crate) position: Position,
    pub(crate) cause: String,
    pub(crate) tries: i32,
}

/// Adds a message to the end of its order's queue. The first one of a queue is the failed message.
/// Does nothing if the message is parked already or was processed; returns whether it was added.
pub(crate) async fn add(
    connection: &mut PgConnection,
    group: &str,
    message: &NewParked,
) -> sqlx::Result<bool> {
    let NewParked { raw, position, .. } = message;
    let names: Vec<String> = raw.headers.iter().map(|(name, _)| text(name)).collect();
    let values: Vec<Option<&[u8]>> = raw.headers.iter().map(|(_, it)| it.as_deref()).collect();
    let added = sqlx::query!(
        "insert into parked_messages
            (consumer_group, subject, identity, message_id, event_type, kafka_key, header_names,
             header_values, payload, kafka_partition, kafka_offset, cause, tries, failed)
         select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
                $2::uuid is null or not exists (
                    select from parked_messages where consumer_group = $1 and subject = $2)
         where not exists (
             select from processed_messages where consumer_group = $1 and message_id = $14)
         on conflict (consumer_group, identity) do nothing",
        group,
        message.subject,
        message.processed_id.unwrap_or_else(|| raw.identity()),
        raw.message_id(),
        raw.event_type_text().map(text),
        raw.key.as_deref(),
        &names,
        &values as &[Option<&[u8]>],
        raw.payload.as_deref(),
        position.partition,
        position.offset,
        cause_text(&message.cause),
        message.tries,
        message.processed_id
    )
    .execute(connection)
    .await?;
    Ok(added.rows_affected() == 1)
}

/// One parked message of the group.
pub(crate) async fn find(
    connection: &mut PgConnection,
    group: &str,
    id: i64,
) -> sqlx::Result<Option<Parked>> {
    let row = sqlx::query_as!(
        Row,
        r#"select id, subject, failed, cause, kafka_key, header_names,
                  header_values as "header_values: Vec<Option<Vec<u8>>>", payload,
                  kafka_partition, kafka_offset
           from parked_messages where consumer_group = $1 and id = $2"#,
        group,
        id
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(Parked::from))
}

/// One parked message, locked until the transaction ends.
pub(crate) async fn lock(
    connection: &mut PgConnection,
    group: &str,
    id: i64,
) -> sqlx::Result<Option<Parked>> {
    let locked = sqlx::query!(
        "select id from parked_messages where consumer_group = $1 and id = $2 for update",
        group,
        id
    )
    .fetch_optional(&mut *connection)
    .await?;
    match locked {
        Some(_) => find(connection, group, id).await,
        None => Ok(None),
    }
}

/// The first messages of an order's queue, in order.
pub(crate) async fn queue(
    connection: &mut PgConnection,
    group: &str,
    subject: Uuid,
    rows_max: i64,
) -> sqlx::Result<Vec<Parked>> {
    let rows = sqlx::query_as!(
        Row,
        r#"select id, subject, failed, cause, kafka_key, header_names,
                  header_values as "header_values: Vec<Option<Vec<u8>>>", payload,
                  kafka_partition, kafka_offset
           from parked_messages where consumer_group = $1 and subject = $2
           order by id limit $3"#,
        group,
        subject,
        rows_max
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(Parked::from).collect())
}

pub(crate) async fn queue_len(
    connection: &mut PgConnection,
    group: &str,
    subject: Uuid,
) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"select count(*) as "count!" from parked_messages
           where consumer_group = $1 and subject = $2"#,
        group,
        subject
    )
    .fetch_one(connection)
    .await
}

pub(crate) async fn remove(connection: &mut PgConnection, id: i64) -> sqlx::Result<()> {
    sqlx::query!("delete from parked_messages where id = $1", id)
        .execute(connection)
        .await?;
    Ok(())
}

/// Records that a redrive of the message failed. It is now the failed message of its order.
pub(crate) async fn mark_failed(
    connection: &mut PgConnection,
    id: i64,
    cause: &str,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update parked_messages set failed = true, cause = $2, tries = tries + 1 where id = $1",
        id,
        cause_text(cause)
    )
    .execute(connection)
    .await?;
    Ok(())
}

struct Row {
    id: i64,
    subject: Option<Uuid>,
    failed: bool,
    cause: String,
    kafka_key: Option<Vec<u8>>,
    header_names: Vec<String>,
    header_values: Vec<Option<Vec<u8>>>,
    payload: Option<Vec<u8>>,
    kafka_partition: i32,
    kafka_offset: i64,
}

impl From<Row> for Parked {
    fn from(row: Row) -> Self {
        let headers = row.header_names.into_iter().zip(row.header_values);
        Self {
            id: row.id,
            subject: row.subject,
            failed: row.failed,
            cause: row.cause,
            raw: RawMessage {
                key: row.kafka_key,
                headers: headers.collect(),
                payload: row.payload,
            },
            position: Position {
                partition: row.kafka_partition,
                offset: row.kafka_offset,
            },
        }
    }
}

/// Replaces zero characters, which Postgres rejects in text: every message must be parkable.
fn text(value: &str) -> String {
    value.replace('\0', "\u{fffd}")
}

fn cause_text(cause: &str) -> String {
    let kept: String = cause.chars().take(CAUSE_CHARS_MAX).collect();
    text(&kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cause_is_cut_and_has_no_zero_characters() {
        let long = format!("\0{}", "é".repeat(2 * CAUSE_CHARS_MAX));
        let kept = cause_text(&long);
        assert_eq!(kept.chars().count(), CAUSE_CHARS_MAX);
        assert!(!kept.contains('\0'));
    }
}
