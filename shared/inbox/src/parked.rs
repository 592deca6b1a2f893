//! The tables of parked messages, as free functions over a connection.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::wire::{Position, Wire};

/// Longest cause that is kept.
const CAUSE_CHARS_MAX: usize = 2_000;

/// A message to be parked.
pub(crate) struct NewParked {
    pub(crate) wire: Wire,
    pub(crate) subject: Option<Uuid>,
    /// Its id in the ledger; none if it cannot be read.
    pub(crate) ledger_id: Option<Uuid>,
    pub(crate) position: Position,
    pub(crate) cause: String,
    pub(crate) tries: i32,
}

/// A parked message as people see it in a list.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Summary {
    pub(crate) id: i64,
    pub(crate) consumer_group: String,
    pub(crate) order_id: Option<Uuid>,
    pub(crate) message_id: Option<Uuid>,
    pub(crate) event_type: Option<String>,
    /// Whether it failed itself, or waits behind one that did.
    pub(crate) culprit: bool,
    pub(crate) cause: String,
    pub(crate) tries: i32,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) parked_at: DateTime<Utc>,
}

/// A parked message with all that is needed to handle it.
pub(crate) struct Parked {
    pub(crate) id: i64,
    pub(crate) subject: Option<Uuid>,
    pub(crate) culprit: bool,
    pub(crate) cause: String,
    pub(crate) wire: Wire,
    pub(crate) position: Position,
}

/// Holds the order up, and holds it against a redrive until the transaction ends.
pub(crate) async fn hold_order(
    connection: &mut PgConnection,
    group: &str,
    subject: Uuid,
) -> sqlx::Result<()> {
    // An update of what is there already: it locks the row, and if a redrive deletes it meanwhile,
    // inserts it anew.
    sqlx::query!(
        "insert into parked_orders (consumer_group, subject) values ($1, $2)
         on conflict (consumer_group, subject) do update set subject = excluded.subject",
        group,
        subject
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Waits for consumers that are adding to the order's queue, and keeps others from it until the
/// transaction ends. False if the order is not held up, or no longer.
pub(crate) async fn lock_order(
    connection: &mut PgConnection,
    group: &str,
    subject: Uuid,
) -> sqlx::Result<bool> {
    let row = sqlx::query!(
        "select subject from parked_orders where consumer_group = $1 and subject = $2 for update",
        group,
        subject
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.is_some())
}

/// Lets the order go on. Fails while anything is in its queue.
pub(crate) async fn release_order(
    connection: &mut PgConnection,
    group: &str,
    subject: Uuid,
) -> sqlx::Result<()> {
    sqlx::query!(
        "delete from parked_orders where consumer_group = $1 and subject = $2",
        group,
        subject
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Adds a message to the end of its order's queue, as the culprit if it is the first. Nothing happens
/// if it is there already, or was processed; returns whether it was added.
pub(crate) async fn add(
    connection: &mut PgConnection,
    group: &str,
    message: &NewParked,
) -> sqlx::Result<bool> {
    let NewParked { wire, position, .. } = message;
    let names: Vec<String> = wire.headers.iter().map(|(name, _)| text(name)).collect();
    let values: Vec<Option<&[u8]>> = wire.headers.iter().map(|(_, it)| it.as_deref()).collect();
    let added = sqlx::query!(
        "insert into parked_messages
            (consumer_group, subject, identity, message_id, event_type, kafka_key, header_names,
             header_values, payload, kafka_partition, kafka_offset, cause, tries, culprit)
         select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
                $2::uuid is null or not exists (
                    select from parked_messages where consumer_group = $1 and subject = $2)
         where not exists (
             select from processed_messages where consumer_group = $1 and message_id = $14)
         on conflict (consumer_group, identity) do nothing",
        group,
        message.subject,
        message.ledger_id.unwrap_or_else(|| wire.identity()),
        wire.message_id(),
        wire.event_type_text().map(text),
        wire.key.as_deref(),
        &names,
        &values as &[Option<&[u8]>],
        wire.payload.as_deref(),
        position.partition,
        position.offset,
        cause(&message.cause),
        message.tries,
        message.ledger_id
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
        r#"select id, subject, culprit, cause, kafka_key, header_names,
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

/// One parked message, kept from others until the transaction ends.
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

/// The first messages of an order's queue.
pub(crate) async fn queue(
    connection: &mut PgConnection,
    group: &str,
    subject: Uuid,
    rows_max: i64,
) -> sqlx::Result<Vec<Parked>> {
    let rows = sqlx::query_as!(
        Row,
        r#"select id, subject, culprit, cause, kafka_key, header_names,
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

/// The message was tried again in vain: it is what holds its order up now.
pub(crate) async fn failed_again(
    connection: &mut PgConnection,
    id: i64,
    why: &str,
) -> sqlx::Result<()> {
    sqlx::query!(
        "update parked_messages set culprit = true, cause = $2, tries = tries + 1 where id = $1",
        id,
        cause(why)
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Parked messages of a group, oldest first.
pub(crate) async fn page(
    connection: &mut PgConnection,
    group: &str,
    after: i64,
    rows_max: i64,
) -> sqlx::Result<Vec<Summary>> {
    sqlx::query_as!(
        Summary,
        r#"select id, consumer_group, subject as order_id, message_id, event_type, culprit, cause,
                  tries, kafka_partition as partition, kafka_offset as "offset", parked_at
           from parked_messages
           where id > $2 and consumer_group = $1
           order by id limit $3"#,
        group,
        after,
        rows_max
    )
    .fetch_all(connection)
    .await
}

/// What a list says of one message.
pub(crate) async fn summary(
    connection: &mut PgConnection,
    group: &str,
    id: i64,
) -> sqlx::Result<Option<Summary>> {
    let row = page(connection, group, id.saturating_sub(1), 1).await?;
    Ok(row.into_iter().find(|row| row.id == id))
}

/// How many messages are parked.
pub(crate) async fn count(connection: &mut PgConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar!(r#"select count(*) as "count!" from parked_messages"#)
        .fetch_one(connection)
        .await
}

struct Row {
    id: i64,
    subject: Option<Uuid>,
    culprit: bool,
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
            culprit: row.culprit,
            cause: row.cause,
            wire: Wire {
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

/// Postgres takes no zero character in text, and nothing may keep a message from being parked.
fn text(value: &str) -> String {
    value.replace('\0', "\u{fffd}")
}

fn cause(why: &str) -> String {
    let kept: String = why.chars().take(CAUSE_CHARS_MAX).collect();
    text(&kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_cut_and_holds_nothing_that_postgres_refuses() {
        let long = format!("\0{}", "é".repeat(2 * CAUSE_CHARS_MAX));
        let kept = cause(&long);
        assert_eq!(kept.chars().count(), CAUSE_CHARS_MAX);
        assert!(!kept.contains('\0'));
    }
}
